/** Shares the memory of uploads among the agents. */

import { budgets } from '#lib/budgets.ts'
import { AppError } from '#lib/errors.ts'

export const upsertBodyBytesMax = budgets.uploads.bodyBytesMax
/** Bound of all agents together. */
const budgetBytes = budgets.uploads.processBytes
/** Bound of one agent. */
const shareBytes = budgets.uploads.callerBytes

/** Counts bytes of bodies that are not parsed yet, and of points whose texts wait for their vectors. */
export type ByteBudget = ReturnType<typeof createByteBudget>

export function createByteBudget() {
  const heldBy = new Map<string, number>()
  let held = 0

  function add(agentId: string, bytes: number): void {
    const own = (heldBy.get(agentId) ?? 0) + bytes
    held += bytes
    if (own === 0) heldBy.delete(agentId)
    else heldBy.set(agentId, own)
  }
  return {
    /** An upload begins. Its announced length counts for nothing, and no memory is taken for it. */
    begin(agentId: string) {
      let arrived = 0
      return {
        /** Counts more bytes of it. Throws AppError `overloaded` when they are too many. */
        arrived(bytes: number): void {
          if ((heldBy.get(agentId) ?? 0) + bytes > shareBytes) {
            throw tooMuch('Too many uploads of this agent arrive at once; send the next one after an answer.')
          }
          if (held + bytes > budgetBytes) {
            throw tooMuch('Too many large bodies are being received; try again in a second.')
          }
          arrived += bytes
          add(agentId, bytes)
        },
        /** Its bytes are parsed, or given up. */
        end(): void {
          add(agentId, -arrived)
          arrived = 0
        },
      }
    },
  }
}

function tooMuch(message: string): AppError {
  return new AppError('overloaded', message, { retryAfter: 1 })
}
