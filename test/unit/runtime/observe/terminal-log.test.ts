/** The log as people see it at a terminal: a line an entry, faults stand out, the console's own reading is left out. */

import { expect, test } from 'vitest'
import { terminalLine } from '#runtime/observe/terminal-log.ts'

const time = new Date(2026, 10, 27, 3, 16, 22, 500).toISOString()
const request = {
  msg: 'http.request',
  method: 'POST',
  route: '/fleet_notes',
  status: 201,
  took_ms: 42.4,
  agent: 'pulse',
}

/** Colours are shown as `<red>…>`. */
function shown(entry: object, all = false): string | null {
  const paint = (style: unknown, text: string) =>
    style === 'red' || style === 'yellow' ? `<${style} ${text}>` : text
  return terminalLine(JSON.stringify({ level: 30, time, ...entry }), { all, paint })
}

test('a request is one line with what it was, how it ended, how long it took, and whose it was', () => {
  expect(shown(request)).toBe('03:16:22 POST /fleet_notes 201 42 ms pulse\n')
  expect(shown({ ...request, status: 422, code: 'validation_failed', took_ms: 1.26 })).toBe(
    '03:16:22 POST /fleet_notes <yellow 422> 1.3 ms pulse <yellow validation_failed>\n',
  )
  expect(shown({ ...request, status: 503, agent: undefined })).toContain('<red 503>')
})

test('requests by which the console reads have no line, unless they fail or all are asked for', () => {
  const reading = { ...request, browser: true, method: 'GET', status: 200 }
  expect(shown(reading)).toBeNull()
  expect(shown({ ...reading, method: 'POST', route: '/api/v1/session/token' })).toBeNull()
  expect(shown(reading, true)).toContain('GET /fleet_notes')
  expect(shown({ ...reading, status: 404 })).toContain('404')
  expect(shown({ ...reading, method: 'DELETE' })).toContain('DELETE')
})

test('other entries are their event and what belongs to it; warnings and errors stand out', () => {
  expect(shown({ msg: 'index.joined', generation: 2, agents: ['a', 'b'] })).toBe(
    '03:16:22 index.joined generation=2 agents=["a","b"]\n',
  )
  expect(shown({ level: 40, msg: 'log.away', reason: 'it does not answer', hint: 'is it there?' })).toBe(
    '03:16:22 <yellow WARN> <yellow log.away> reason="it does not answer" (is it there?)\n',
  )
  const err = {
    type: 'Error',
    message: 'broken',
    stack: 'Error: broken\n    at one (a.ts:1)\n    at two (b.ts:2)',
  }
  expect(shown({ level: 50, msg: 'http.failed', err })).toBe(
    '03:16:22 <red ERROR> <red http.failed> broken\n    at one (a.ts:1)\n    at two (b.ts:2)\n',
  )
})

test('no value begins a line of its own, or acts on the terminal', () => {
  const line = shown({ ...request, agent: 'a\n03:16:22 forged\x1b[2J' })
  expect(line).toContain('a\\n03:16:22 forged\\x1b[2J')
  expect(shown({ msg: 'x', name: 'a\u202eb' })).toContain('a\\u202eb')
})
