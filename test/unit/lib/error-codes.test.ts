/** What the catalogue of error codes promises: it is the whole list, and every entry says what to do. */

import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { AppError, type ErrorCode, errorCodes, isAnswered } from '#lib/errors.ts'

const codes = Object.keys(errorCodes) as ErrorCode[]

test('each code has a status, a title and full sentences that say what it means and what to do', () => {
  for (const code of codes) {
    const { status, title, meaning, action, alsoStatus = {} } = errorCodes[code]
    expect(code).toMatch(/^[a-z]+(_[a-z]+)*$/)
    expect([status, ...Object.keys(alsoStatus).map(Number)].every((one) => one >= 400 && one < 600)).toBe(
      true,
    )
    expect(title).toMatch(/^[A-Z].*[^.]$/)
    if (meaning !== undefined) expect(meaning).toMatch(/^[A-Z`].*\.$/)
    expect(action).toMatch(/^[A-Z].*\.$/)
    expect(new AppError(code, 'x')).toMatchObject({ code, statusCode: status, title })
  }
})

test('a code that asks to wait says so, and every 429 and 503 does but for what a setting has switched off', () => {
  for (const code of codes) {
    const { status, waits = false, action } = errorCodes[code]
    if (status === 429 || status === 503) expect([code, waits]).toEqual([code, code !== 'mirror_off'])
    expect([code, action.includes('retryAfter')]).toEqual([code, waits])
  }
})

test('every code is used, and only those of 500 are kept from callers', () => {
  const folders = ['cli', 'engines', 'lib', 'operations', 'runtime', 'services']
  const texts = execFileSync('git', ['grep', '-ohE', "'[a-z_]+'", '--', ...folders, ':!lib/error-codes'], {
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  const used = new Set(texts.split('\n'))
  expect(codes.filter((code) => !used.has(`'${code}'`))).toEqual([])
  expect(codes.filter((code) => !isAnswered(code)).every((code) => errorCodes[code].status === 500)).toBe(
    true,
  )
  expect(isAnswered('internal_error')).toBe(true)
})
