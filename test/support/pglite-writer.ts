/** A process of its own that writes rows into the cluster named by its argument and prints each number once it is kept. */

import pino from 'pino'
import { openPglite } from '#engines/relational/pglite.ts'

const relational = await openPglite({ directory: process.argv[2] as string, log: pino({ level: 'silent' }) })
await relational.query('create table written (n int primary key)')
for (let n = 1; ; n++) {
  await relational.query('insert into written values ($1)', [n])
  process.stdout.write(`${n}\n`)
}
