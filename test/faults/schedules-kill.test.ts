/** A schedule over kills of the platform, and over a clock that is stepped both ways. */

import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Schedule, ScheduledRun } from '#client/client.ts'
import { sleep } from '#lib/backoff.ts'
import { openTalkers } from '../support/chat.ts'
import { runJson } from '../support/command-line.ts'
import { eventually } from '../support/eventually.ts'
import { stepClockOf } from '../support/fault-fleet/clock.ts'
import { startFlotilla } from '../support/flotilla-process.ts'
import { echoScript } from '../support/scripted-node.ts'

const minute = 60
const kills = 3

test('each minute fires once through kill -9 and steps of the clock, and missed ones are skipped', async () => {
  const { home, file, node } = await openTalkers({ atlas: echoScript })
  const clock = stepClockOf(join(home, 'clock'))
  if (!clock) throw new Error('libfaketime is not installed')
  const env = { RUN_NODES_FILE: file, ...clock.env }
  const control = { FLOTILLA_HOME: home }
  let platform = await startFlotilla(home, { env })
  const restart = async () => {
    platform.child.kill('SIGKILL')
    await platform.finished
    platform = await startFlotilla(home, { env })
  }
  const add = ['schedules', 'add', 'ATLAS', 'tick', '--cron', '* * * * *', '--session', 'ticks']
  const { id } = await runJson<Schedule>(add, control)
  const firings = async () =>
    (await runJson<{ runs: ScheduledRun[] }>(['schedules', 'runs', id], control)).runs.reverse()
  const next = async () => (await runJson<Schedule>(['schedules', 'show', id], control)).nextAt!
  let seconds = 0
  /** To just behind the next planned time and this much more, and waits until the schedule has gone on. */
  const step = async (more: number, meanwhile?: () => Promise<void>) => {
    const before = await next()
    const leftMs = Date.parse(before) - (Date.now() + seconds * 1_000)
    seconds += Math.max(0, Math.ceil(leftMs / 1_000)) + 1 + more
    clock.step(seconds)
    await meanwhile?.()
    await eventually('it goes on', async () => (await next()) > before, 60_000)
  }
  for (let n = 0; n < 3; n++) await step(0)
  await step(0, restart)
  // An hour in which nobody was there.
  await step(60 * minute, restart)
  const hour = await firings()
  expect(hour.filter(({ status }) => status === 'missed').length).toBe(1)
  // Back by an hour: nothing is fired again, also by a platform that starts then.
  seconds -= 60 * minute
  clock.step(seconds)
  await restart()
  await sleep(7_000)
  expect(await firings()).toHaveLength(hour.length)
  seconds += 60 * minute
  await step(0)
  // A run that was at its node in a kill may have failed: an hour is more than it has.
  const over = ['completed', 'failed', 'missed']
  await eventually('all runs end', async () => (await firings()).every(({ status }) => over.includes(status)))
  const all = await firings()
  const planned = all.map(({ plannedAt }) => plannedAt)
  expect(new Set(planned).size).toBe(all.length)
  expect(planned).toEqual(planned.toSorted())
  const runs = all.flatMap(({ runId }) => runId ?? [])
  expect(new Set(runs).size).toBe(runs.length)
  expect(runs.length).toBe(all.length - 1)
  // In a kill a run may have been at its node, or on its way to it: that one is not sent twice.
  const calls = node.runs.filter(({ text }) => text === 'tick').length
  const failed = all.filter(({ status }) => status === 'failed')
  expect(failed.length).toBeLessThanOrEqual(kills)
  expect(failed.map(({ error }) => error!.code)).toEqual(failed.map(() => 'node_lost'))
  expect(calls).toBeGreaterThanOrEqual(runs.length - failed.length)
  expect(calls).toBeLessThanOrEqual(runs.length + kills)
}, 240_000)
