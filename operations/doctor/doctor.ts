/** Checks a platform whose engines are open: do they answer, do the reader groups keep up, are the indexes sound. */

import { Type } from 'typebox'
import type { SqlExecutor } from '#engines/relational/port.ts'
import { describeError } from '#lib/errors.ts'
import { plural } from '#lib/plural.ts'
import { secretKeyVariable, tryKeys } from '#services/access/secrets/secrets.ts'
import { loadNodes } from '#services/runs/nodes/nodes.ts'
import { readNodeStates } from '#services/runs/state/node-rows.ts'
import { findOtherEmbedders } from '#services/vectors/read/embedders.ts'
import { isMirrorOff } from '#services/vectors/relational/settings.ts'
import {
  type GenerationEngine,
  type Index,
  listGenerations,
  relationalIndex,
  vectorsIndex,
} from '#services/vectors/write/rebuild.ts'
import { catalog } from '#topics/catalog.ts'
import { deadLetterSuffix } from '#topics/dead-letters.ts'
import { readLag } from '../lag.ts'
import { defineOperation, type OperatedPlatform } from '../operation.ts'
import { type Check, pingEngines } from './ping.ts'

/** A lag beyond this is worth a warning. */
const lagMax = 10_000

export const doctorOperation = defineOperation({
  name: 'doctor',
  needs: ['vectors', 'embedder'],
  args: Type.Object({}),
  run: ({ platform }) => checkEngines(platform),
})

/** Never throws: what fails is reported as a failed check. */
async function checkEngines(platform: OperatedPlatform): Promise<Check[]> {
  const { engines, choices } = platform
  const { mirror, ...others } = engines
  const pings = await pingEngines(isMirrorOff(platform.env) ? others : engines, choices)
  const answers = await Promise.all(
    Object.entries({
      groups: checkGroups,
      'dead letters': checkDeadLetters,
      'vector index': async () => checkIndex(engines.relational, vectorsIndex, engines.vectors),
      'relational index': async () =>
        engines.mirror && !isMirrorOff(platform.env)
          ? checkIndex(engines.relational, relationalIndex, engines.mirror)
          : [],
      embedder: checkEmbedders,
      secrets: checkSecrets,
      nodes: checkNodes,
    }).map(([check, run]) =>
      run(platform).catch((error): Check[] => [{ check, status: 'fail', found: describeError(error) }]),
    ),
  )
  return [...pings, ...answers.flat()]
}

async function checkGroups(platform: OperatedPlatform): Promise<Check[]> {
  const groups = await readLag(platform)
  return groups.map(({ group, members, lag, rests, partitions, stuck }) => {
    const check = `group ${group}`
    if (rests === 'off') return { check, status: 'ok', found: 'reads nothing by design: MIRROR=off' }
    const found = `${plural(members, 'member')}, ${plural(lag, 'record')} behind`
    const lost = partitions.filter(({ committed, start, end }) => {
      return committed === null || committed < start || committed > end
    })
    if (lost.length > 0) {
      return {
        check,
        status: 'fail',
        found: `${plural(lost.length, 'partition')} without a position that the log still holds`,
        advice: `Find out why; then \`flotilla groups reset ${group} --to beginning\` (or \`flotilla rebuild vectors\`).`,
      }
    }
    if (stuck.length > 0) {
      return {
        check,
        status: 'fail',
        found: `${found}; not getting through: ${stuck.length}`,
        advice: 'See `flotilla lag`; `flotilla groups skip` passes one.',
      }
    }
    if (rests === 'asleep' && (members > 0 || lag === 0)) {
      return { check, status: 'ok', found: `${found}; asleep until a search-pg asks` }
    }
    if (members === 0 && lag > 0) {
      return { check, status: 'warn', found, advice: 'Start its service: nothing reads these records.' }
    }
    if (lag > lagMax) {
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

async function checkDeadLetters(platform: OperatedPlatform): Promise<Check[]> {
  const topics = catalog.filter((topic) => topic.name.endsWith(deadLetterSuffix))
  const checks: Check[] = []
  for (const topic of topics) {
    const place = platform.locations.get(topic.name)?.physicalName
    const ranges = place ? await platform.engines.eventLog.offsets(place) : []
    const records = ranges.reduce((sum, range) => sum + range.end - range.start, 0)
    if (records === 0) continue
    checks.push({
      check: topic.name,
      status: 'warn',
      found: `up to ${plural(records, 'dead letter')}`,
      advice: '`flotilla dead-letters list` shows them and why.',
    })
  }
  return checks.length > 0 ? checks : [{ check: 'dead letters', status: 'ok', found: 'none' }]
}

/** Those that the nodes file names, as the probes of the dispatcher found them. */
async function checkNodes({ engines, env }: OperatedPlatform): Promise<Check[]> {
  const states = await readNodeStates(engines.relational)
  const down = new Map(states.filter(({ status }) => status === 'down').map((state) => [state.slug, state]))
  return loadNodes(env).nodes.flatMap(({ slug, codename, url }): Check[] => {
    const state = down.get(slug)
    if (!state) return []
    const since = state.lastSeen ? `since ${state.lastSeen.toISOString()}` : 'and never did'
    const advice = 'Start it, or correct its address in the nodes file: runs of this agent wait, then fail.'
    return [{ check: `node ${codename}`, status: 'warn', found: `${url} does not answer, ${since}`, advice }]
  })
}

async function checkEmbedders({ engines }: OperatedPlatform): Promise<Check[]> {
  const { vectors, embedder } = engines
  const others = await findOtherEmbedders(vectors, embedder.space)
  return others.map(({ collection, found, advice }) => {
    return { check: `vectors of ${collection}`, status: 'warn', found, advice }
  })
}

async function checkSecrets({ engines, env }: OperatedPlatform): Promise<Check[]> {
  const check = 'secrets'
  const opened = await tryKeys(engines.relational, env)
  if (opened !== null) return [{ check, status: 'ok', found: `${plural(opened, 'secret')} at rest, opened` }]
  const advice = `Set ${secretKeyVariable} here, too, if services have their data directories elsewhere.`
  return [{ check, status: 'warn', found: 'the key of the secrets at rest is not at hand', advice }]
}

async function checkIndex(relational: SqlExecutor, index: Index, engine: GenerationEngine): Promise<Check[]> {
  const check = index.name === 'vectors' ? 'vector index' : 'relational index'
  const generations = await listGenerations(relational, index)
  const live = await engine.liveGeneration()
  const known = generations.find((one) => one.state === 'live')
  const next = generations.find((one) => one.state === 'building' || one.state === 'switching')
  const found = `generation ${live} is live`
  if (next) {
    const advice = `\`flotilla rebuild ${index.name}\` shows its progress.`
    return [{ check, status: 'warn', found: `${found}, ${next.generation} is ${next.state}`, advice }]
  }
  if (known && known.generation !== live) {
    const advice = `The engine was replaced or restored: run \`flotilla rebuild ${index.name}\`.`
    return [{ check, status: 'fail', found: `${found}, but ${known.generation} was written`, advice }]
  }
  return [{ check, status: 'ok', found }]
}
