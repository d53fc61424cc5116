/** Results on a terminal and in a pipe: tables that fit, times as people say them, colours of states alone. */

import { PassThrough } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import stringWidth from 'string-width'
import { describe, expect, it, vi } from 'vitest'
import { layOut, type Screen, shortened } from '../../../cli/layout.ts'
import { faultText, screenOf } from '../../../cli/output.ts'

const now = Date.parse('2026-11-27T12:00:00Z')
const terminal = (columns: number, paint: Screen['paint'] = (_, text) => text) => ({ columns, now, paint })
const stream = (size: object) => Object.assign(new PassThrough(), size)

const runs = {
  head: ['run', 'status', 'ms', 'error'],
  rows: [
    ['run_000102030405060708090a0b0c0d0e0f', 'completed', 12, null],
    [
      'run_ffffffffffffffffffffffffffffffff',
      'failed',
      7_000,
      'the node took too long to answer, and was cut off',
    ],
  ],
}

describe('a table', () => {
  it('is whole in a pipe, with its numbers right-aligned', () => {
    expect(
      layOut({
        head: ['agent', 'lag', 'seen'],
        rows: [
          ['a', 1, null],
          ['bb', 20, 'x'.repeat(300)],
        ],
      }),
    ).toBe(`agent  lag  seen\na        1  -\nbb      20  ${'x'.repeat(300)}`)
  })

  it('cuts sentences first, and says how they are seen', () => {
    expect(layOut(runs, terminal(80))).toBe(
      [
        'run                                   status       ms  error',
        'run_000102030405060708090a0b0c0d0e0f  completed    12  -',
        'run_ffffffffffffffffffffffffffffffff  failed     7000  the node took too long t…',
        'cut to the width of the terminal: --wide shows all',
      ].join('\n'),
    )
    expect(layOut(runs, terminal(120))).not.toContain('…')
  })

  it.each([20, 24, 33, 50, 79])('is no wider than a terminal of %i', (columns) => {
    const widths = layOut(runs, terminal(columns)).split('\n').slice(0, -1).map(stringWidth)
    expect(Math.max(...widths)).toBe(columns)
  })

  it('keeps some characters of every column where there is no room', () => {
    expect(layOut(runs, terminal(5)).split('\n')[1]).toBe('ru…  co…   12  -')
  })

  it('leaves columns out in which no row says anything, where there is no room', () => {
    const table = { head: ['agent', 'quota', 'key'], rows: [['atlas', null, 'SHA256:Bg+6q84y']] }
    expect(layOut(table, terminal(80))).toContain('quota')
    expect(layOut(table, terminal(26))).toMatch(/^agent {2}key\natlas {2}SHA256:Bg\+6q84y\ncut to /)
    expect(layOut({ head: ['agent', 'quota'], rows: [] }, terminal(4))).toMatch(/^ag… {2}qu…/)
  })

  it('counts wide characters twice, and cuts no character in two', () => {
    const rows = [['山'.repeat(30)], ['👩‍👩‍👧'.repeat(30)], ['é'.repeat(30)]]
    const lines = layOut({ head: ['note'], rows }, terminal(12)).split('\n')
    expect(lines.slice(1, 4)).toEqual(['山山山山山…', `${'👩‍👩‍👧'.repeat(5)}…`, `${'é'.repeat(11)}…`])
  })

  it('goes on in further lines where nothing may be cut', () => {
    const rows = [
      ['FAIL', 'Free the port 8080, or set VECTOR_GATEWAY_PORT.'],
      ['ok', '/a/very/long/path/without/blanks'],
    ]
    expect(layOut({ head: ['', 'found'], rows, wrap: true }, terminal(28))).toBe(
      [
        '      found',
        'FAIL  Free the port 8080, or',
        '      set',
        '      VECTOR_GATEWAY_PORT.',
        'ok    /a/very/long/path/with',
        '      out/blanks',
      ].join('\n'),
    )
  })
})

describe('a time', () => {
  const at = (text: string, screen?: Screen) =>
    layOut({ head: ['at'], rows: [[text], [null]] }, screen).split('\n')[1]

  it.each([
    ['2026-11-27T12:00:00.200Z', 'now'],
    ['2026-11-27T11:59:30Z', '30 s ago'],
    ['2026-11-27T11:57:00.000Z', '3 min ago'],
    ['2026-11-27T14:00:00Z', 'in 2 h'],
    ['2026-11-24T12:00:00+00:00', '3 days ago'],
    ['2026-11-02T12:00:00Z', '2 Nov 2026'],
  ])('%s is %s on a terminal, and in full elsewhere', (text, said) => {
    expect(at(text, terminal(80))).toBe(said)
    expect(at(text, screenOf(stream({ isTTY: true, columns: 80 }), { wide: true, now }))).toBe(text)
    expect(at(text)).toBe(text)
    expect(layOut({ fields: { created_at: text, endedAt: text, body: text } }, terminal(80))).toBe(
      `created_at  ${said}\nendedAt     ${said}\nbody        ${text}`,
    )
  })

  it('is a text where others of its column are', () => {
    const subjects = [['2026-11-27T11:57:00Z'], ['Lamp']]
    expect(layOut({ head: ['subject'], rows: subjects }, terminal(80))).toContain('2026-11-27T11:57:00Z')
  })
})

describe('a colour', () => {
  const marked = terminal(80, (style, text) => `<${String(style)}>${text}</>`)

  it('is that of a state, not of the same word elsewhere, and comes from no value', () => {
    const rows = [
      ['failed', 'failed'],
      ['\x1b[31mred', 'odd'],
    ]
    expect(
      layOut({ head: ['note', 'status'], rows }, marked)
        .split('\n')
        .slice(1),
    ).toEqual(['failed       <red>failed</>', '\\x1b[31mred  odd'])
    expect(layOut({ fields: { status: 'completed', title: 'completed' } }, marked)).toBe(
      '<dim>status</>  <green>completed</>\n<dim>title</>   completed',
    )
  })

  it('does not change widths', () => {
    const real = (columns: number) => terminal(columns, (_, text) => `\x1b[31m${text}\x1b[39m`)
    for (const columns of [24, 60, 200])
      expect(stripVTControlCharacters(layOut(runs, real(columns)))).toBe(layOut(runs, terminal(columns)))
  })

  it('is for terminals, and as NO_COLOR and FORCE_COLOR say', () => {
    const fault = (isTTY: boolean) => faultText('not_found: There is no \x1b[32mx.', stream({ isTTY }))
    vi.stubEnv('NO_COLOR', undefined)
    vi.stubEnv('FORCE_COLOR', undefined)
    try {
      expect(fault(true)).toBe('\x1b[31mnot_found:\x1b[39m There is no \\x1b[32mx.')
      expect(fault(false)).toBe('not_found: There is no \\x1b[32mx.')
      vi.stubEnv('FORCE_COLOR', '1')
      expect(fault(false)).toContain('\x1b[31m')
      vi.stubEnv('FORCE_COLOR', undefined)
      vi.stubEnv('NO_COLOR', '1')
      expect(fault(false)).not.toContain('\x1b')
    } finally {
      vi.unstubAllEnvs()
    }
  })
})

describe('a screen', () => {
  it('has the width of its terminal; a pipe and --wide have none', () => {
    expect(screenOf(stream({ isTTY: true, columns: 40 }), { now })).toMatchObject({ columns: 40, now })
    expect(screenOf(stream({ isTTY: true, columns: 0 }), { now })).toMatchObject({ columns: 80, now })
    const endless = { columns: Infinity, now: undefined }
    expect(screenOf(stream({ isTTY: true, columns: 40 }), { wide: true, now })).toMatchObject(endless)
    expect(screenOf(stream({}), { now })).toMatchObject(endless)
  })

  it('shortens a line in linear time', () => {
    expect(shortened('山'.repeat(1_000_000), 7)).toBe('山山山…')
    expect(shortened('abc', 3)).toBe('abc')
  })
})
