/** What was said in a session: the context of an agent that joins it. */

import type { SqlExecutor } from '#engines/relational/port.ts'
import type { Content, RunEvent } from './types.ts'

export interface Said {
  /** A codename, or `user`. */
  author: string
  text: string
}

/** The last messages of the session of this user before the run was accepted, the oldest first: users' messages and final events. */
export async function readConversation(
  executor: SqlExecutor,
  { runId, userId, sessionId }: { runId: string; userId: string; sessionId: string },
  limit: number,
): Promise<Said[]> {
  const { rows } = await executor.query<{ author: string; message: Content | null; event: string | null }>(
    `with before as (select created_at as at, user_uid from platform.runs where run_id = $1),
     said as (
       (select 'user' as author, r.message, null as event, r.created_at as at, 0 as seq
        from platform.runs r, before
        where r.user_id = $2 and r.session_id = $3 and r.user_uid is not distinct from before.user_uid
          and r.trigger in ('api', 'dispatch') and r.created_at <= before.at
        order by r.id desc limit $4)
       union all
       (select r.agent, null, e.event, e.created_at, e.seq
        from platform.runs r join platform.run_events e on e.root_run_id = r.root_run_id and e.run_id = r.run_id, before
        where r.user_id = $2 and r.session_id = $3 and r.user_uid is not distinct from before.user_uid
          and r.trigger in ('api', 'dispatch', 'mention') and e.created_at <= before.at
        order by e.created_at desc limit $4))
     select author, message, event from said order by at desc, seq desc limit $4`,
    [runId, userId, sessionId, limit],
  )
  return rows.reverse().flatMap(({ author, message, event }) => {
    const content = message ?? (JSON.parse(event ?? '{}') as RunEvent).content
    const text = content ? spokenText(content) : ''
    return text === '' ? [] : [{ author, text }]
  })
}

/** The text parts, without thoughts. */
export function spokenText({ parts }: Content): string {
  return parts
    .filter(({ text, thought }) => typeof text === 'string' && thought !== true)
    .map(({ text }) => text)
    .join('\n\n')
}
