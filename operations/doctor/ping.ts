/** Asks engines whether they answer, and how fast. */

import type { EngineChoice } from '#engines/open.ts'
import { withTimeout } from '#lib/backoff.ts'
import { AppError } from '#lib/errors.ts'
import type { EngineName, Engines } from '#runtime/start/service.ts'
import type { Check } from './check.ts'
import { engineAway } from './why-away.ts'

const pingTimeoutMs = 5_000

/** Asks each engine that is open whether it answers. */
export function pingEngines(
  engines: Partial<Engines>,
  choices: Record<EngineName, EngineChoice>,
): Promise<Check[]> {
  const { eventLog, schemaRegistry, vectors, relational, mirror, embedder } = engines
  const asks: [string, EngineName, (() => Promise<unknown>) | undefined][] = [
    ['event log', 'eventLog', eventLog && (() => eventLog.ping(pingTimeoutMs))],
    ['schema registry', 'schemaRegistry', schemaRegistry && (() => schemaRegistry.ping(pingTimeoutMs))],
    ['vector engine', 'vectors', vectors && (() => vectors.ping(pingTimeoutMs))],
    ['relational engine', 'relational', relational && (() => relational.ping(pingTimeoutMs))],
    ['relational mirror', 'mirror', mirror && (() => mirror.ping(pingTimeoutMs))],
    ['embedder', 'embedder', embedder && (() => embedder.ping(pingTimeoutMs))],
  ]
  return Promise.all(
    asks.flatMap(([check, engine, ask]) =>
      ask ? [ping(check, { engine, variable: choices[engine].variable }, ask)] : [],
    ),
  )
}

async function ping(
  check: string,
  of: { engine: EngineName; variable: string },
  ask: () => Promise<unknown>,
): Promise<Check> {
  const startedAt = performance.now()
  try {
    await withTimeout(ask(), pingTimeoutMs + 1_000, () => new AppError('overloaded', 'no answer in time'))
    return { check, status: 'ok', found: `answers in ${Math.round(performance.now() - startedAt)} ms` }
  } catch (error) {
    return engineAway(check, of, error)
  }
}
