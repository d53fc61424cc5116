/** Nodes and times of dispatchers in tests of runs. */

import { type RunTimes, runTimes } from '#services/runs/dispatch/parts.ts'
import { type NodeSet, nodeSetOf, type RunNode } from '#services/runs/nodes/nodes.ts'

export const fleet = ['whale', 'pulse', 'cipher', 'atlas', 'nexus', 'axon'] as const

/** Times that let a test see what happens at their end. */
export const shortTimes: RunTimes = {
  ...runTimes,
  sweepMs: 100,
  restMs: 100,
  retryMs: 100,
  probeMs: 200,
  probeRestMs: 200,
}

export function nodesAt(
  url: string,
  slugs: readonly string[] = fleet,
  given: Partial<RunNode> = {},
): NodeSet {
  return nodeSetOf(
    slugs.map((slug) => ({
      slug,
      codename: slug.toUpperCase(),
      role: 'test',
      skills: [],
      url,
      app: slug,
      headers: {},
      timeoutMs: 300_000,
      concurrency: 4,
      ...given,
    })),
  )
}
