/** When schedules are due: daylight saving in two zones, missed times, ends. */

import { describe, expect, it, test } from 'vitest'
import { dueOf, isCron, isTimeZone, nextTime, type Plan } from '#services/runs/schedules/times.ts'

const plan = (given: Partial<Plan>): Plan => ({
  cron: null,
  timezone: 'UTC',
  at: null,
  endsAt: null,
  missed: 'skip',
  ...given,
})

function times(given: Partial<Plan>, after: string, count: number): string[] {
  const found: string[] = []
  for (let at: Date | null = new Date(after); found.length < count; ) {
    at = nextTime(plan(given), at as Date)
    if (at === null) break
    found.push(at.toISOString().slice(0, 16))
  }
  return found
}

describe('daylight saving', () => {
  // By the rules of the zones: Berlin at 1:00 UTC, New York at 2:00 of its own time.
  test.each([
    ['Europe/Berlin', '30 2 * * *', '2026-03-28T12:00Z', ['2026-03-29T01:00', '2026-03-30T00:30']],
    ['Europe/Berlin', '30 2 * * *', '2026-10-24T12:00Z', ['2026-10-25T00:30', '2026-10-26T01:30']],
    ['America/New_York', '30 2 * * *', '2026-03-07T12:00Z', ['2026-03-08T07:00', '2026-03-09T06:30']],
    ['America/New_York', '30 1 * * *', '2026-10-31T12:00Z', ['2026-11-01T05:30', '2026-11-02T06:30']],
  ])('%s: %s from %s on', (timezone, cron, after, expected) => {
    expect(times({ cron, timezone }, after, 2)).toEqual(expected)
  })

  test.each([
    ['Europe/Berlin', '2026-03-28T23:00Z', 23],
    ['Europe/Berlin', '2026-10-24T22:00Z', 25],
    ['America/New_York', '2026-03-08T05:00Z', 23],
    ['America/New_York', '2026-11-01T04:00Z', 25],
  ])('every half hour goes on in %s from %s on, a day of %i hours', (timezone, midnight, hours) => {
    const from = new Date(Date.parse(midnight) - 1).toISOString()
    const expected = Array.from({ length: hours * 2 }, (_, n) =>
      new Date(Date.parse(midnight) + n * 1_800_000).toISOString().slice(0, 16),
    )
    expect(times({ cron: '*/30 * * * *', timezone }, from, hours * 2)).toEqual(expected)
  })
})

it('takes cron expressions of five fields, and names of zones', () => {
  for (const cron of ['* * * * *', ' 30  7 * * 1-5 ', '0 0 29 2 *', '0 12 * * MON,THU', '*/5 9-17 1 JAN *']) {
    expect([cron, isCron(cron)]).toEqual([cron, true])
  }
  for (const cron of [
    '',
    '* * * *',
    '* * * * * *',
    '60 * * * *',
    '@daily',
    'a b c d e',
    '0 0 32 * *',
    '\0 * * * *',
  ]) {
    expect([cron, isCron(cron)]).toEqual([cron, false])
  }
  for (const name of ['UTC', 'Europe/Berlin', 'America/Argentina/Buenos_Aires', 'Etc/GMT+5'])
    expect([name, isTimeZone(name)]).toEqual([name, true])
  for (const name of ['', 'Mars/Base', '+01:00', 'Berlin', 'x'.repeat(10_000)])
    expect([name, isTimeZone(name)]).toEqual([name, false])
})

it('one that never comes has no time, and none is behind its end', () => {
  expect(times({ cron: '0 0 30 2 *' }, '2026-01-01T00:00Z', 1)).toEqual([])
  expect(times({ cron: '0 * * * *', endsAt: new Date('2026-01-01T02:00Z') }, '2026-01-01T00:30Z', 5)).toEqual(
    ['2026-01-01T01:00', '2026-01-01T02:00'],
  )
  expect(times({ at: new Date('2026-01-01T02:00Z') }, '2026-01-01T00:00Z', 5)).toEqual(['2026-01-01T02:00'])
})

describe('a time that has come', () => {
  const minute = '2026-01-01T10:00:00Z'
  const due = (given: Partial<Plan>, planned: string, now: string) => {
    const { fires, missed, next } = dueOf(plan(given), new Date(planned), new Date(now))
    const shown = (at: Date | null) => at?.toISOString().slice(11, 19) ?? null
    return [shown(fires), shown(missed), shown(next)]
  }

  it.each([
    ['at once', '2026-01-01T10:00:00.2Z', ['10:00:00', null, '11:00:00']],
    ['late by less than a minute', '2026-01-01T10:00:59Z', ['10:00:00', null, '11:00:00']],
    ['missed', '2026-01-01T10:01:01Z', [null, '10:00:00', '11:00:00']],
    ['missed three times', '2026-01-01T12:30:00Z', [null, '10:00:00', '13:00:00']],
    [
      'the last of those that were missed is due',
      '2026-01-01T12:00:30Z',
      ['12:00:00', '10:00:00', '13:00:00'],
    ],
  ])('%s', (_, now, expected) => {
    expect(due({ cron: '0 * * * *' }, minute, now)).toEqual(expected)
  })

  it('one run makes up for all that were missed', () => {
    expect(due({ cron: '0 * * * *', missed: 'once' }, minute, '2026-01-01T12:30:00Z')).toEqual([
      '10:00:00',
      null,
      '13:00:00',
    ])
    expect(due({ at: new Date(minute), missed: 'once' }, minute, '2026-01-02T12:30:00Z')).toEqual([
      '10:00:00',
      null,
      null,
    ])
    expect(due({ at: new Date(minute) }, minute, '2026-01-02T12:30:00Z')).toEqual([null, '10:00:00', null])
  })

  it('those of each minute are fired one after the other, as long as none is late', () => {
    expect(due({ cron: '* * * * *' }, minute, '2026-01-01T10:00:50Z')).toEqual(['10:00:00', null, '10:01:00'])
    expect(due({ cron: '* * * * *' }, minute, '2026-01-01T11:00:30Z')).toEqual([
      '11:00:00',
      '10:00:00',
      '11:01:00',
    ])
  })
})
