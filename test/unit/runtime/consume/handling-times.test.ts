/** The histogram of handling times reads like one of prom-client's own. */

import { Histogram, Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { HandlingTimes } from '#runtime/consume/handling-times.ts'

const name = 'flotilla_consumer_handling_duration_seconds'

test("the text is that of prom-client's own histogram", async () => {
  const [ours, theirs] = [new Registry(), new Registry()]
  const times = new HandlingTimes(ours)
  const histogram = new Histogram({
    name,
    help: 'How long handler calls took',
    labelNames: ['group', 'topic'],
    buckets: [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 15, 60],
    registers: [theirs],
  })
  for (const group of ['a', 'b "quoted"', 'a']) {
    // On a bound, between two, beyond the last one.
    for (const seconds of [0, 0.001, 0.0011, 0.25, 60, 61]) {
      times.of(group, 't').add(seconds)
      histogram.observe({ group, topic: 't' }, seconds)
    }
  }
  expect(await ours.metrics()).toBe(await theirs.metrics())
  expect(await ours.metrics()).toContain(`${name}_bucket{le="0.001",group="a",topic="t"} 4`)
})
