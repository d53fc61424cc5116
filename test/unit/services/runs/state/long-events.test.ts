/** Long events of runs are read by bytes, and none is lost by it. */

import { expect, test } from 'vitest'
import { pieceBytesMax } from '#runtime/http/answers.ts'
import { readDispatchEvents, readEvents } from '#services/runs/state/read.ts'
import type { StoredEvent } from '#services/runs/state/types.ts'
import { openTestRelational } from '../../../../support/relational.ts'

test('a read of events ends by bytes; reading until none comes gives each once', async () => {
  const relational = await openTestRelational()
  await relational.query(
    `insert into platform.run_events (root_run_id, seq, run_id, goal_id, goal_seq, event)
     select 'r', n, 'r', 7, n, json_build_object('id', n::text, 'text', repeat('x', case when n % 3 = 0 then 500000 else 10 end))::text
     from generate_series(1, 40) n`,
  )
  const ways = [
    (after: number) => readEvents(relational, { rootRunId: 'r', after, limit: 16 }),
    (after: number) => readDispatchEvents(relational, { goalId: 7, after, limit: 16 }),
  ]
  for (const read of ways) {
    const seen: number[] = []
    for (let page: StoredEvent[] = await read(0); page.length > 0; page = await read(seen.at(-1)!)) {
      expect(JSON.stringify(page).length).toBeLessThan(pieceBytesMax + 510_000)
      seen.push(...page.map(({ seq }) => seq))
    }
    expect(seen).toEqual(Array.from({ length: 40 }, (_, n) => n + 1))
  }
})
