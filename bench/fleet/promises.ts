/** After the load: is everything that was acknowledged there, as it was acknowledged. */

import { setTimeout as pause } from 'node:timers/promises'
import { type Agent, ask, type Fleet, pointId, RequestFault } from './agents.ts'
import { collection, pointsPerGroup } from './mix.ts'

const readersAtOnce = 8
const triesMax = 10

/** `lost`: how many of `checked` are absent or older than the acknowledged value; `first` names one of them. */
export interface Checked {
  checked: number
  lost: number
  first?: string
}

export interface CheckedPromises {
  points: Checked
  notes: Checked
  goals: Checked
  /** Lost is one that has not ended. */
  runs: Checked
}

/** Reads everything once, through the interfaces that agents use. */
export async function checkPromises(fleet: Fleet): Promise<CheckedPromises> {
  const { agents, kept } = fleet
  return {
    points: await check(agents, (agent) => lostPoints(fleet, agent)),
    notes: await check(kept.notes, (note) => lostRow(fleet, '/fleet_notes', note)),
    goals: await check(kept.goals, (goal) => lostRow(fleet, '/goals', goal)),
    runs: await check(kept.runs, (run) => lostRun(fleet, run)),
  }
}

/** The losses that `find` names for one item, and how many things it has looked at. */
type Looked = { checked: number; lost: string[] }

async function check<T>(items: readonly T[], look: (item: T) => Promise<Looked>): Promise<Checked> {
  const sum = { checked: 0, lost: [] as string[] }
  let next = 0
  const reader = async () => {
    while (next < items.length) {
      const { checked, lost } = await look(items[next++]!)
      sum.checked += checked
      sum.lost.push(...lost)
    }
  }
  await Promise.all(Array.from({ length: readersAtOnce }, reader))
  const [first] = sum.lost
  return { checked: sum.checked, lost: sum.lost.length, ...(first === undefined ? {} : { first }) }
}

interface FoundPoint {
  id: string
  payload: { version?: number }
}

/** A later version that got no answer may be there, an earlier one may not. */
async function lostPoints(fleet: Fleet, agent: Agent): Promise<Looked> {
  const wanted = agent.groups.flatMap(({ acknowledged, sent }, n) =>
    Array.from({ length: acknowledged > 0 ? pointsPerGroup : 0 }, (_, i) => ({
      id: pointId(agent, n, i),
      acknowledged,
      sent,
    })),
  )
  const ids = wanted.map(({ id }) => `&ids=${id}`).join('')
  const path = `/v1/vectors/get?collection=${collection}${ids}`
  const text = await textAt(fleet, { at: 'vectorUrl', path, token: agent.key })
  const { points } = JSON.parse(text) as { points: FoundPoint[] }
  const versions = new Map(points.map(({ id, payload }) => [id, payload.version ?? 0]))
  const lost = wanted
    .filter(({ id, acknowledged, sent }) => {
      const version = versions.get(id) ?? 0
      return version < acknowledged || version > sent
    })
    .map(({ id, acknowledged }) => `${id}: ${versions.get(id)}, acknowledged ${acknowledged}`)
  return { checked: wanted.length, lost }
}

async function lostRow(
  fleet: Fleet,
  path: string,
  { agent, id, text }: { agent: Agent; id: number; text: string },
): Promise<Looked> {
  const found = await textAt(fleet, { at: 'hubUrl', path: `${path}/${id}`, token: agent.key })
  return { checked: 1, lost: found.includes(`"${text}"`) ? [] : [`${path}/${id}: ${found.slice(0, 200)}`] }
}

async function lostRun(fleet: Fleet, { agent, id }: { agent: Agent; id: string }): Promise<Looked> {
  const found = await textAt(fleet, { at: 'runUrl', path: `/runs/${id}`, token: agent.key })
  return { checked: 1, lost: found.includes('"status":"completed"') ? [] : [`${id}: ${found.slice(0, 200)}`] }
}

/** The text of the answer, or of a refusal that lasts longer than some tries. */
async function textAt(fleet: Fleet, asked: Parameters<typeof ask>[1]): Promise<string> {
  for (let tries = 1; ; tries++) {
    try {
      return (await ask(fleet, asked)).text
    } catch (error) {
      if (!(error instanceof RequestFault)) throw error
      if (tries === triesMax) return JSON.stringify({ points: [], refused: error.message })
    }
    await pause(1_000)
  }
}
