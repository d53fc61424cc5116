/** Shares the memory of uploads among the agents: bytes of bodies that are not parsed yet. */

import { budgets } from '#lib/budgets.ts'
import { AppError } from '#lib/errors.ts'

export const upsertBodyBytesMax = budgets.uploads.bodyBytesMax
/** Bound of all agents together. */
const budgetBytes = budgets.uploads.processBytes
/** Bound of one agent. */
const shareBytes = budgets.uploads.callerBytes

export interface ByteBudget {
  /** An upload begins: what it announces counts for nothing, and no memory is taken for it. */
  begin(agentId: string): Upload
}

interface Upload {
  /** Counts bytes that have arrived. Throws AppError `overloaded` when they are too many. */
  arrived(bytes: number): void
  /** Its bytes are parsed, or given up. */
  end(): void
}

export function createByteBudget(): ByteBudget {
  const heldBy = new Map<string, number>()
  let held = 0

  function add(agentId: string, bytes: number): void {
    const own = (heldBy.get(agentId) ?? 0) + bytes
    held += bytes
    if (own === 0) heldBy.delete(agentId)
    else heldBy.set(agentId, own)
  }
  return {
    begin(agentId) {
      let arrived = 0
      return {
        arrived(bytes) {
          if ((heldBy.get(agentId) ?? 0) + bytes > shareBytes) {
            throw tooMuch('Too many uploads of this agent arrive at once; send the next one after an answer.')
          }
          if (held + bytes > budgetBytes) {
            throw tooMuch('Too many large bodies are being received; try again in a second.')
          }
          arrived += bytes
          add(agentId, bytes)
        },
        end() {
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
