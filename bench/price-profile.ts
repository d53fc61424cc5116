/** Where the main thread of a process spends its time, by folder of ours, package, and part of Node. */

import { type Ask, openInspector } from './inspector.ts'

/** Name → how much. */
export type Shares = Map<string, number>

interface CpuProfile {
  nodes: { id: number; callFrame: { functionName: string; url: string } }[]
  samples: number[]
  /** Microseconds between one sample and the one before. */
  timeDeltas: number[]
}

const intervalUs = 500

/** Milliseconds of each, while `work` runs; a profile costs a little itself. */
export async function profileOf(inspectorUrl: string, work: () => Promise<unknown>): Promise<Shares> {
  const inspected = await openInspector(inspectorUrl)
  try {
    const { ask } = inspected.threads[0]!
    await ask('Profiler.enable')
    await ask('Profiler.setSamplingInterval', { interval: intervalUs })
    await ask('Profiler.start')
    await work()
    return await stop(ask)
  } finally {
    inspected.close()
  }
}

async function stop(ask: Ask): Promise<Shares> {
  const { profile } = await ask<{ profile: CpuProfile }>('Profiler.stop')
  await ask('Profiler.disable')
  const names = new Map(profile.nodes.map(({ id, callFrame }) => [id, nameOf(callFrame)]))
  const shares: Shares = new Map()
  for (const [n, id] of profile.samples.entries()) {
    const name = names.get(id) ?? null
    if (name !== null) shares.set(name, (shares.get(name) ?? 0) + (profile.timeDeltas[n] ?? 0) / 1_000)
  }
  return shares
}

/** Null while nothing runs. */
function nameOf({ functionName, url }: CpuProfile['nodes'][number]['callFrame']): string | null {
  if (functionName === '(idle)') return null
  const parcel = /node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules\/)/.exec(url)?.[1]
  if (parcel !== undefined) return parcel
  if (url.startsWith('node:')) return url.split('/').slice(0, 2).join('/')
  const own = /\/(engines|lib|runtime|services|schemas|topics|operations)\/(.+)$/.exec(url)
  if (own) return [own[1], ...own[2]!.split('/').slice(0, -1)].slice(0, 3).join('/')
  return functionName.startsWith('(') ? functionName : 'native'
}
