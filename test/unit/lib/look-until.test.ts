/** Looking again and again: until there is something, until it is late, until somebody gives up. */

import { expect, it } from 'vitest'
import { lookUntil } from '#lib/backoff.ts'

const never = new AbortController().signal

it('gives what is there, however often it has to look', async () => {
  let looks = 0
  const look = async () => (++looks === 3 ? 'found' : undefined)
  const options = { everyMs: 1, withinMs: 60_000, signal: never, late: () => 'late' }
  expect(await lookUntil(look, options)).toBe('found')
  expect(looks).toBe(3)
})

it('is late with a value or a fault', async () => {
  const look = async () => undefined
  const options = { everyMs: 1, withinMs: 0, signal: never }
  expect(await lookUntil<string>(look, { ...options, late: () => 'the last' })).toBe('the last')
  const late = () => {
    throw new Error('too late')
  }
  await expect(lookUntil(look, { ...options, late })).rejects.toThrow('too late')
})

it('looks no more once its signal has aborted', async () => {
  const giveUp = new AbortController()
  let looks = 0
  const look = async () => {
    looks++
    giveUp.abort(new Error('given up'))
    return undefined
  }
  const options = { everyMs: 60_000, withinMs: 60_000, signal: giveUp.signal, late: () => 'late' }
  await expect(lookUntil<string>(look, options)).rejects.toThrow('given up')
  expect(looks).toBe(1)
})
