/** Engines are asked when somebody scrapes, all at once, and not at rest. */

import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { exposeEngines } from '#runtime/observe/metrics.ts'
import type { Engines } from '#runtime/start/service.ts'

/** Engines of which only `ping` is used. */
function pingedBy(pings: Record<string, () => Promise<void>>): Partial<Engines> {
  return Object.fromEntries(Object.entries(pings).map(([name, ping]) => [name, { ping }]))
}

async function linesOf(registry: Registry, name: string): Promise<string[]> {
  return (await registry.metrics()).split('\n').filter((line) => line.startsWith(`${name}{`))
}

test('one that answers, one that is away and one that hangs', async () => {
  const registry = new Registry()
  let asked = 0
  exposeEngines(
    registry,
    pingedBy({
      eventLog: async () => void asked++,
      relational: () => Promise.reject(new AppError('relational_engine_unavailable', 'away')),
      vectors: () => new Promise(() => {}),
    }),
  )
  expect(asked).toBe(0)
  expect(await linesOf(registry, 'flotilla_unreachable_engine')).toEqual([
    'flotilla_unreachable_engine{engine="event_log"} 0',
    'flotilla_unreachable_engine{engine="relational_engine"} 1',
    'flotilla_unreachable_engine{engine="vector_engine"} 1',
  ])
  // Both figures are of one round.
  expect(asked).toBe(1)
  const [answered, ...others] = await linesOf(registry, 'flotilla_engine_ping_seconds')
  expect(answered).toMatch(/event_log"} \d/)
  for (const line of others) expect(line).toContain(' Nan')
})
