/** A copy of the log has every record committed before its instant and none after, while writes go on. */

import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openLogSnapshot } from '#engines/event-log/embedded/log-file.ts'
import { openEmbeddedLog } from '#engines/event-log/embedded.ts'
import { temporaryFolder } from '../../../../support/temporary.ts'
import { topicSpec } from '../../../../support/topic-spec.ts'

async function opened(directory: string) {
  const log = await openEmbeddedLog({ directory })
  onTestFinished(() => log.close())
  return log
}

const records = (count: number) =>
  Array.from({ length: count }, () => ({ key: null, value: Buffer.alloc(1_000, 'x') }))

test('records written during the copy are not in it', async () => {
  const folder = temporaryFolder()
  const log = await opened(folder)
  await log.createTopic(topicSpec('work'))
  for (let n = 0; n < 4; n++) await log.append('work', 0, records(2_000))
  await log.setPositions('readers', 'work', [{ partition: 0, offset: 7 }])
  const snapshot = openLogSnapshot(folder)
  await log.append('work', 0, records(2_000))
  await log.setPositions('readers', 'work', [{ partition: 0, offset: 9 }])
  const target = join(temporaryFolder(), 'copy')
  const steps: number[][] = []
  let writing: Promise<unknown> = Promise.resolve()
  await snapshot.copyTo(target, (done, total) => {
    steps.push([done, total])
    writing = Promise.all([writing, log.append('work', 0, records(10))])
  })
  await writing
  snapshot.close()
  expect(steps.length).toBeGreaterThan(0)
  const copy = await opened(target)
  expect(await copy.offsets('work')).toEqual([{ partition: 0, start: 0, end: 8_000 }])
  expect((await copy.groupState('readers', 'work')).committed).toMatchObject([{ partition: 0, offset: 7 }])
  expect(await copy.append('work', 0, records(1))).toBe(8_000)
  expect((await log.offsets('work'))[0]!.end).toBe(10_000 + steps.length * 10)
})
