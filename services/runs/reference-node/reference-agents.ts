/** Builds the agents of a reference node from their roster: searching ones, and the orchestrator. */

import type { Logger } from 'pino'
import { describeError } from '#lib/errors.ts'
import { createSharedMemory, type MemoryParts } from './memory.ts'
import type { Compose } from './model.ts'
import { createOrchestrator } from './orchestrator.ts'
import { type NodeAgent, orchestratorSlug, type ReferenceAgent } from './roster.ts'
import { createSearchingAgent } from './searching-agent.ts'

interface ReferenceParts {
  agents: readonly ReferenceAgent[]
  memoryOf(agent: ReferenceAgent): MemoryParts
  compose: Compose | undefined
  log: Logger
}

/** Nothing is sent before the first message. */
export function openReferenceAgents({ agents, memoryOf, compose, log }: ReferenceParts) {
  const memories = agents.map((agent) => ({ agent, memory: createSharedMemory(memoryOf(agent)) }))
  const entries = memories.map(({ agent, memory }): [string, NodeAgent] => {
    const onMissing = (what: string, error: unknown) =>
      log.warn({ agent: agent.codename, what, reason: describeError(error) }, 'reference-node.without')
    const searching = createSearchingAgent({ agent, memory: () => memory.open(), compose, onMissing })
    if (agent.slug !== orchestratorSlug) return [agent.slug, searching]
    return [agent.slug, createOrchestrator({ agent, searching, compose, onMissing })]
  })
  return {
    /** By slug, which is the name of the app. */
    agents: new Map(entries),
    async close() {
      await Promise.all(memories.map(({ memory }) => memory.close()))
    },
  }
}
