/** The relational-writer on Kafka and Postgres: the shared promises, two writers, and a database that goes away. */

import { afterAll, beforeAll, expect, it } from 'vitest'
import { describeRelationalWriter, progressOf } from '../flow/relational-writer.promises.ts'
import { openGate } from '../support/distributed-gate.ts'
import { openStack, type Stack } from '../support/distributed-servers.ts'
import { eventually } from '../support/eventually.ts'
import { openMirrorPlatform } from '../support/mirror-platform.ts'
import { temporaryFolder } from '../support/temporary.ts'

let servers: Stack
beforeAll(async () => {
  servers = await openStack()
})
afterAll(() => servers?.close())

async function environment(): Promise<Record<string, string>> {
  await servers.clear()
  return servers.newEnvironment()
}

describeRelationalWriter('distributed', environment)

it('two writers share the partitions, and when one goes the other takes over where the rows are', async () => {
  const env = await environment()
  const [one, two] = await Promise.all(
    [1, 2].map(() => openMirrorPlatform({ ...env, FLOTILLA_HOME: temporaryFolder() })),
  )
  const expected: Record<string, unknown> = {}
  let over = false
  const writing = (async () => {
    for (let n = 0; !over; n++) {
      const id = `p${n % 40}`
      const deletes = n % 7 === 6
      await one!.publish([{ id, payload: deletes ? null : { n } }])
      if (deletes) delete expected[`posts/${id}`]
      else expected[`posts/${id}`] = { n }
    }
  })()
  await eventually(
    'both have partitions',
    async () => {
      const { members } = await one!.platform.engines.eventLog.groupState(
        'relational-writer',
        'vectors.commands',
      )
      return members === 2 && (await progressOf(one!)).size === 12
    },
    90_000,
  )
  await two!.close()
  await eventually(
    'one is left',
    async () => {
      const { members } = await one!.platform.engines.eventLog.groupState(
        'relational-writer',
        'vectors.commands',
      )
      return members === 1
    },
    60_000,
  )
  over = true
  await writing
  await one!.drained(120_000)
  expect(await one!.rows()).toEqual(expected)
}, 300_000)

it('waits while Postgres is away, parks nothing and goes on by itself', async () => {
  const env = await environment()
  const gate = await openGate(env.DATABASE_URL as string)
  try {
    const flow = await openMirrorPlatform({ ...env, DATABASE_URL: gate.url })
    await flow.publish([{ id: 'before' }])
    await flow.drained()
    gate.cut()
    await flow.publish(Array.from({ length: 30 }, (_, i) => ({ id: `p${i}` })))
    await eventually(
      'the writer has met the fault',
      () => flow.lines.some((line) => /relational/.test(line)),
      60_000,
    )
    await gate.mend()
    await flow.drained(120_000)
    expect(Object.keys(await flow.rows())).toHaveLength(31)
    const { rows } = await flow.platform.engines.relational.query('select * from platform.operation_failures')
    expect(rows).toEqual([])
    const dead = await flow.platform.engines.eventLog.offsets('vectors.commands.dead-letters')
    expect(dead.every(({ start, end }) => start === end)).toBe(true)
    await flow.close()
  } finally {
    gate.cut()
  }
}, 240_000)
