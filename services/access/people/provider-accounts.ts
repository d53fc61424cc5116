/** Accounts of people at a provider: OpenID Connect, or Firebase. */

import type { Relational } from '#engines/relational/port.ts'
import { AppError } from '#lib/errors.ts'
import { writePersonChange } from './changes.ts'
import { columns, findByEmail, notedBy, type Person, shownOf, updateRow } from './rows.ts'

/** An account at a provider. */
export interface ProviderAccount {
  issuer: string
  subject: string
}

/**
 * The person with this account at a provider; else the one whose verified e-mail it has, who is linked with it. A password
 * that the person never replaced ends by that. Throws AppError `forbidden` when there is no such person.
 */
export function personOfAccount(
  relational: Relational,
  account: ProviderAccount,
  verifiedEmail: string | null,
  requestId: string,
): Promise<Person> {
  return relational.transaction(async (tx) => {
    const { rows } = await tx.query<Person>(
      `select ${columns} from platform.people where oidc_issuer = $1 and oidc_subject = $2`,
      [account.issuer, account.subject],
    )
    if (rows[0]) return rows[0]
    const named = verifiedEmail === null ? undefined : await findByEmail(tx, verifiedEmail, 'for update')
    if (!named || named.oidc_subject !== null) throw refusedAccount()
    const person = await updateRow(
      tx,
      named.uid,
      `oidc_issuer = $2, oidc_subject = $3, must_change_password = false,
       password = case when must_change_password then null else password end`,
      [account.issuer, account.subject],
    )
    const by = { actor: { kind: 'person' as const, id: person.uid }, requestId }
    await notedBy(by, 'person.link')(tx, {
      target: person.uid,
      before: shownOf(named),
      after: shownOf(person),
    })
    await writePersonChange(tx, person, 'password')
    return person
  })
}

function refusedAccount(): AppError {
  return new AppError(
    'forbidden',
    'No person of this platform has this account or its verified e-mail: ask an admin to add you.',
  )
}
