/** The questions that `flotilla doctor` asks, each with an answer and what to do about it. */

import { Type } from 'typebox'
import type { EventLog } from '#engines/event-log/port.ts'
import type { EngineChoice } from '#engines/open.ts'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { withTimeout } from '#lib/backoff.ts'
import { AppError, describeError } from '#lib/errors.ts'
import type { Platform } from '#runtime/platform.ts'
import type { EngineName, Engines } from '#runtime/service.ts'
import {
  type GenerationEngine,
  type Index,
  relationalIndex,
  vectorsIndex,
} from '#services/vectors/index/indexes.ts'
import { listGenerations } from '#services/vectors/index/rebuild.ts'
import { catalog, deadLetterSuffix } from '#topics/catalog.ts'
import { readLag } from './lag.ts'
import { defineOperation } from './operation.ts'

export interface Check {
  check: string
  status: 'ok' | 'warn' | 'fail'
  found: string
  /** What to do; absent when all is well. */
  advice?: string
}

const pingTimeoutMs = 5_000
const lagWorth = 10_000

export const doctorOperation = defineOperation({
  name: 'doctor',
  needs: ['vectors', 'embedder'],
  args: Type.Object({}),
  run: ({ platform }) => checkEngines(platform),
})

/** Runs where the engines are open. Never throws: what fails is an answer, too. */
export async function checkEngines(platform: Platform): Promise<Check[]> {
  const pings = await pingEngines(platform.engines, platform.choices)
  const answers = await Promise.all(
    Object.entries({
      groups: checkGroups,
      'dead letters': checkDeadLetters,
      'vector index': checkVectors,
      'relational index': checkMirror,
    }).map(([check, ask]) =>
      ask(platform).catch((error): Check[] => [{ check, status: 'fail', found: describeError(error) }]),
    ),
  )
  return [...pings, ...answers.flat()]
}

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
    ['embedder', 'embedder', embedder && (() => embedder.embed(['ping']))],
  ]
  return Promise.all(
    asks.flatMap(([check, engine, ask]) => (ask ? [ping(check, choices[engine].variable, ask)] : [])),
  )
}

async function ping(check: string, variable: string, ask: () => Promise<unknown>): Promise<Check> {
  const startedAt = performance.now()
  try {
    await withTimeout(ask(), pingTimeoutMs + 1_000, () => new AppError('overloaded', 'no answer in time'))
    return { check, status: 'ok', found: `answers in ${Math.round(performance.now() - startedAt)} ms` }
  } catch (error) {
    return {
      check,
      status: 'fail',
      found: error instanceof AppError ? error.message : describeError(error),
      advice: `Start it, or mend ${variable}; what waits for it goes on by itself.`,
    }
  }
}

async function checkGroups(platform: Platform): Promise<Check[]> {
  const { eventLog, relational } = platform.engines
  const groups = await readLag({ eventLog, relational, places: platform.places })
  return groups.map(({ group, members, lag, partitions }) => {
    const check = `group ${group}`
    const found = `${members} members, ${lag} records behind`
    const lost = partitions.filter(({ committed, start, end }) => {
      return committed === null || committed < start || committed > end
    })
    if (lost.length > 0) {
      return {
        check,
        status: 'fail',
        found: `${lost.length} partitions have no position that the log still holds`,
        advice: `Look why; then \`flotilla groups reset ${group} --to beginning\` (or \`flotilla rebuild vectors\`).`,
      }
    }
    if (members === 0 && lag > 0) {
      return { check, status: 'warn', found, advice: `Start its service: nothing works on these records.` }
    }
    if (lag > lagWorth) {
      return {
        check,
        status: 'warn',
        found,
        advice: 'Watch it with `flotilla lag --watch`; add instances if it grows.',
      }
    }
    return { check, status: 'ok', found }
  })
}

async function checkDeadLetters(platform: Platform): Promise<Check[]> {
  const topics = catalog.filter((topic) => topic.name.endsWith(deadLetterSuffix))
  const checks: Check[] = []
  for (const topic of topics) {
    const records = await recordsIn(platform.engines.eventLog, platform.places.get(topic.name)?.physicalName)
    if (records === 0) continue
    checks.push({
      check: topic.name,
      status: 'warn',
      found: `up to ${records} dead letters`,
      advice: '`flotilla dead-letters list` shows them and why.',
    })
  }
  return checks.length > 0 ? checks : [{ check: 'dead letters', status: 'ok', found: 'none' }]
}

async function recordsIn(eventLog: EventLog, topic: string | undefined): Promise<number> {
  if (!topic) return 0
  const ranges = await eventLog.offsets(topic)
  return ranges.reduce((sum, range) => sum + range.end - range.start, 0)
}

function checkVectors({ engines }: Platform): Promise<Check[]> {
  return checkIndex(engines.relational, vectorsIndex, engines.vectors)
}

async function checkMirror({ engines }: Platform): Promise<Check[]> {
  return engines.mirror ? checkIndex(engines.relational, relationalIndex, engines.mirror) : []
}

async function checkIndex(relational: SqlExecutor, index: Index, engine: GenerationEngine): Promise<Check[]> {
  const check = index.name === 'vectors' ? 'vector index' : 'relational index'
  const generations = await listGenerations(relational, index)
  const live = await engine.liveGeneration()
  const known = generations.find((one) => one.state === 'live')
  const underWay = generations.find((one) => one.state === 'building' || one.state === 'switching')
  const found = `generation ${live} is live`
  if (underWay) {
    const advice = `\`flotilla rebuild ${index.name}\` watches it.`
    return [{ check, status: 'warn', found: `${found}, ${underWay.generation} is ${underWay.state}`, advice }]
  }
  if (known && known.generation !== live) {
    const advice = `The engine was replaced or restored: run \`flotilla rebuild ${index.name}\`.`
    return [{ check, status: 'fail', found: `${found}, but ${known.generation} was written`, advice }]
  }
  return [{ check, status: 'ok', found }]
}
