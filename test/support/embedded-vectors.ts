/** The contract's harness for the drivers that keep their points in a folder. */

import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pino } from 'pino'
import { openEmbeddedVectors } from '#engines/vectors/embedded.ts'
import type { Point } from '#engines/vectors/port.ts'
import type { VectorsHarness } from '#test/contract/vectors-harness.ts'
import { temporaryFolder } from './temporary.ts'

const dimension = 64
const collections = ['first', 'second'] as const

export function embeddedVectorsHarness(index: 'zvec' | 'exact'): VectorsHarness {
  return {
    dimension,
    async place() {
      const directory = join(temporaryFolder(), 'a folder with spaces')
      const log = pino({ level: 'silent' })
      return {
        collections,
        open: () => openEmbeddedVectors({ directory, collections, dimension, log, index }),
        fillAsFormerly: async (points) => fillAsFormerly(directory, points),
      }
    },
  }
}

/** The file as it was before points had positions. */
function fillAsFormerly(directory: string, points: Point[]): void {
  mkdirSync(directory, { recursive: true })
  const db = new DatabaseSync(join(directory, 'points.db'))
  db.exec(`create table meta (key text primary key, value integer not null) without rowid;
    create table generations (generation integer primary key, state text not null);
    insert into meta values ('format', 1), ('dimension', ${dimension});
    insert into generations values (1, 'live');`)
  for (const name of collections) {
    db.exec(`create table p_${name}_1 (n integer primary key, id text not null unique, payload text not null,
      v blob not null)`)
  }
  const insert = db.prepare(`insert into p_${collections[0]}_1 (id, payload, v) values (?, ?, ?)`)
  for (const { id, payload, vector } of points) {
    insert.run(id, JSON.stringify(payload), new Uint8Array(vector.buffer))
  }
  db.close()
}
