/** What vectors.progress says after restarts. */

import { describe, expect, it } from 'vitest'
import type { VectorsProgress } from '#schemas/types.ts'
import { vectorsIndex } from '#services/vectors/index/indexes.ts'
import { createProgress } from '#services/vectors/index/progress.ts'

function keeper(stored: VectorsProgress[]) {
  return createProgress({
    index: vectorsIndex,
    generation: 2,
    epoch: 1,
    async catchUp() {},
    latest: (partition) => stored.findLast((record) => record.partition === partition),
    async publish(records) {
      stored.push(...records)
    },
  })
}

describe('progress', () => {
  it('is repeated at assignment, from the commit or the last record, whichever is further', async () => {
    const stored: VectorsProgress[] = []
    await keeper(stored).assigned([{ partition: 0, committed: 5 }])
    expect(stored.at(-1)).toMatchObject({
      partition: 0,
      generation: 2,
      epoch: 1,
      applied_through: 4,
      failures: 0,
    })
    const progress = keeper(stored)
    await progress.assigned([{ partition: 0, committed: 5 }])
    await progress.applied(0, 9)
    await keeper(stored).assigned([{ partition: 0, committed: 7 }])
    expect(stored.at(-1)).toMatchObject({ applied_through: 9 })
  })

  it('counts each failed record once, also when it is repeated after a crash', async () => {
    const stored: VectorsProgress[] = []
    const first = keeper(stored)
    await first.assigned([{ partition: 3, committed: 0 }])
    first.failed(3, 2)
    first.failed(3, 2)
    await first.applied(3, 4)
    // The commit never came: the same records arrive again, and one more fails.
    const second = keeper(stored)
    await second.assigned([{ partition: 3, committed: 0 }])
    second.failed(3, 2)
    second.failed(3, 6)
    await second.applied(3, 6)
    expect(stored.at(-1)).toMatchObject({ applied_through: 6, failures: 2 })
  })

  it('never goes back', async () => {
    const stored: VectorsProgress[] = []
    const progress = keeper(stored)
    await progress.assigned([{ partition: 0, committed: 10 }])
    await progress.applied(0, 3)
    expect(stored.at(-1)).toMatchObject({ applied_through: 9 })
  })
})
