/** Writes changes of people into the outbox: every instance drops what it knew of the person, and open streams end. */

import { v7 as uuidv7 } from 'uuid'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { writeOutbox } from '#runtime/publish/outbox.ts'
import type { PersonChange } from '#schemas/types.ts'
import { peopleChanges } from '#topics/catalog.ts'

type PersonChangeKind = PersonChange['change']

/** Writes the change's outbox row and returns its id. Call it in the transaction that holds the person's row. */
export function writePersonChange(
  tx: SqlExecutor,
  { uid, role, version }: Pick<PersonChange, 'uid' | 'role' | 'version'>,
  change: PersonChangeKind,
): Promise<number> {
  const value: PersonChange = { uid, change, role, version, occurred_at: Date.now() }
  return writeOutbox(tx, { topic: peopleChanges.name, key: peopleChanges.key(uid), eventId: uuidv7(), value })
}
