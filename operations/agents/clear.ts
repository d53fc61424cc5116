/** Removes what agents made at the hub and at the run gateway: for agents that were there to show something. */

import { Type } from 'typebox'
import { wakeOutbox } from '#runtime/notices.ts'
import { showAgent } from '#services/access/agents/agents.ts'
import { removeRecords } from '#services/records/api/remove.ts'
import { deleteSchedulesOf } from '#services/runs/schedules/schedules.ts'
import { endRunsOf, removeRunsOf } from '#services/runs/state/remove.ts'
import { defineAction } from '../action.ts'

/** `flotilla tour` and `flotilla demo` ask for it. Notes go with their threads; the audit stays until it expires. */
export const clearAgentAction = defineAction({
  name: 'agents clear',
  summary: 'Remove the notes, goals, schedules, runs and dispatches that an agent made',
  args: Type.Object({ agent_id: Type.String() }),
  change: { action: 'agent.clear', target: ({ agent_id }) => agent_id },
  async run({ platform, signal, note }, { agent_id }) {
    const { relational } = platform.engines
    const { uid } = await showAgent(relational, agent_id)
    await deleteSchedulesOf(relational, uid)
    await endRunsOf(relational, uid, signal)
    const removed = await relational.transaction(async (tx) => {
      const runs = await removeRunsOf(tx, uid)
      const records = await removeRecords(tx, [uid], agent_id)
      await note(tx)
      return { ...records, ...runs }
    })
    await wakeOutbox(relational)
    return removed
  },
})
