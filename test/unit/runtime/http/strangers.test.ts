import { expect, test } from 'vitest'
import type { AppError } from '#lib/errors.ts'
import { createStrangers, type StrangerLimits } from '#runtime/http/strangers.ts'

const usual: StrangerLimits = { bytesMax: 1_000, paceBytesMin: 10, paceMs: 3_600_000 }

/** Strangers, and the names of those that were refused with their statuses. */
function opened(limits: Partial<StrangerLimits> = {}) {
  const strangers = createStrangers({ ...usual, ...limits })
  const refused: [string, AppError][] = []
  const begin = (name: string, announced = 0) =>
    strangers.begin(announced, (fault) => refused.push([name, fault]))
  return { strangers, refused, begin, names: () => refused.map(([name]) => name) }
}

test('received bytes count until the body is whole, and announced ones count at once', () => {
  const { strangers, begin } = opened()
  const header = begin('header')
  header.arrived(100)
  header.arrived(300)
  const body = begin('body', 500)
  body.arrived(200)
  expect(strangers.heldBytes).toBe(800)
  header.end()
  expect(strangers.heldBytes).toBe(500)
  body.end()
  body.end()
  body.arrived(700)
  expect(strangers.heldBytes).toBe(0)
})

test('the oldest make room, with 503 and a time to wait, and only as many as it takes', () => {
  const { strangers, refused, names, begin } = opened()
  begin('a').arrived(400)
  begin('b').arrived(400)
  const late = begin('c')
  late.arrived(150)
  expect(names()).toEqual([])
  late.arrived(300)
  expect(names()).toEqual(['a'])
  begin('d', 900)
  expect(names()).toEqual(['a', 'b', 'c'])
  expect(strangers.heldBytes).toBe(900)
  const [, fault] = refused[0]!
  expect([fault.code, fault.statusCode, fault.retryAfter]).toEqual(['overloaded', 503, 1])
})

test('one that is larger than the whole budget is refused itself', () => {
  const { strangers, names, begin } = opened()
  begin('a', 1_001)
  expect([names(), strangers.heldBytes]).toEqual([['a'], 0])
})

test('who brings less than the least pace is refused with 408; who keeps it goes on', () => {
  const { refused, names, begin } = opened({ paceMs: 0 })
  const quick = begin('quick')
  const slow = begin('slow')
  for (let n = 1; n <= 5; n++) quick.arrived(n * 10)
  slow.arrived(10)
  slow.arrived(19)
  slow.arrived(500)
  expect(names()).toEqual(['slow'])
  const [, fault] = refused[0]!
  expect([fault.code, fault.statusCode]).toEqual(['bad_request', 408])
})
