import { describe, expect, it } from 'vitest'
import { findMentions } from '#services/runs/dispatch/find-mentions.ts'
import { stepsOnText } from '#test/support/steps-on-text.ts'

const names = ['WHALE', 'PULSE', 'CIPHER', 'ATLAS', 'NEXUS', 'AXON']

/** Text, and what it names: `@NAME` when written so. */
const cases: [text: string, named: string][] = [
  ['WHALE', 'WHALE'],
  ['Ask WHALE.', 'WHALE'],
  ['WHALE, PULSE; ATLAS!', 'WHALE PULSE ATLAS'],
  ["WHALE's view and PULSE’s", 'WHALE PULSE'],
  ['(WHALE) "PULSE" **ATLAS** [NEXUS]', 'WHALE PULSE ATLAS NEXUS'],
  ['WHALE WHALE @WHALE', 'WHALE @WHALE'],
  ['~~WHALE~~ PULSE&ATLAS', 'WHALE PULSE ATLAS'],
  ['WHALE: look. cc:PULSE', 'WHALE PULSE'],
  ['WHALE—PULSE…ATLAS', 'WHALE PULSE ATLAS'],
  ['WHALE\nPULSE\r\nATLAS', 'WHALE PULSE ATLAS'],
  ['whale pulse Atlas wHALE', ''],
  ['@whale @Pulse @ATLAS', '@WHALE @PULSE @ATLAS'],
  ['@whale, @pulse: @atlas’s', '@WHALE @PULSE @ATLAS'],
  ['<@WHALE> (@pulse)', '@WHALE @PULSE'],
  ['Done.@whale', '@WHALE'],
  ['＠WHALE', '@WHALE'],
  ['请WHALE看一下', 'WHALE'],
  ['请@whale看一下，PULSE。', '@WHALE PULSE'],
  ['WHALEさん、PULSEに', 'WHALE PULSE'],
  ['ーWHALEー', 'WHALE'],
  ['WHALE에게 @pulse는', 'WHALE @PULSE'],
  ['ถามWHALEหน่อย', 'WHALE'],
  ['🐋WHALE🐋', 'WHALE'],
  ['\u200bWHALE\u200b', 'WHALE'],
  ['WHALE\u0301 WHALÉ éWHALE', ''],
  ['яWHALE WHALEя', ''],
  ['WHALES PREWHALE WHALE2 2WHALE', ''],
  ['WHALE_2 _WHALE A_WHALE', ''],
  ['WHALE.ts WHALE.md foo.WHALE', ''],
  ['src/WHALE WHALE/ \\WHALE C:\\WHALE\\x', ''],
  ['$PULSE $\u007bPULSE} %PULSE% PULSE=1 --x=PULSE', ''],
  ['#WHALE std::WHALE WHALE::new', ''],
  ['WHALE-2 pre-WHALE WHALE-led', ''],
  ['- WHALE\n-PULSE', 'WHALE PULSE'],
  ['https://example.com/WHALE http://PULSE/ ftp://x?ATLAS', ''],
  ['https://WHALE.example/@pulse and ATLAS', 'ATLAS'],
  ['<https://example.com/WHALE> PULSE', 'PULSE'],
  ['看https://x.example/WHALE，PULSE', 'PULSE'],
  ['[docs](WHALE.md) [WHALE](x/PULSE) ATLAS', 'WHALE ATLAS'],
  ['me@WHALE.example WHALE@example.com a.WHALE+x@y.example', ''],
  ['someone@whale @WHALE@PULSE', ''],
  ['mail a@b.example, then WHALE', 'WHALE'],
  ['`WHALE` PULSE ``ATLAS ` NEXUS`` AXON', 'PULSE AXON'],
  ['` WHALE', 'WHALE'],
  ['`a\n\nWHALE ` b', 'WHALE'],
  ['```\nWHALE\n```\nPULSE', 'PULSE'],
  ['~~~js\nWHALE\n```\nATLAS\n~~~\nPULSE', 'PULSE'],
  ['````\nWHALE\n```\nATLAS\n````', ''],
  ['PULSE\n```\nWHALE', 'PULSE'],
  ['- ```\n  WHALE\n  ```\n- PULSE', 'PULSE'],
  ['``` WHALE ``` PULSE', 'PULSE'],
  ['> WHALE said\nPULSE\n  > ATLAS', 'PULSE'],
  ['2 > 1 WHALE', 'WHALE'],
  ['@nobody @types/node @media @x', '@nobody @media'],
  ['@WHALE_2 @whale.ts @ WHALE @@PULSE', '@WHALE_2 WHALE'],
  ['', ''],
  ['@ ` > \\ ]( ://', ''],
  ['\ud800WHALE\udc00', 'WHALE'],
  ['@__proto__ @constructor', '@constructor'],
]

describe('findMentions', () => {
  it.each(cases)('%j', (text, named) => {
    const found = findMentions(text, names).map(({ name, at }) => (at ? `@${name}` : name))
    expect(found.join(' ')).toBe(named)
  })

  it('finds every name, however many are written', () => {
    const text = Array.from({ length: 10_000 }, (_, n) => `@name${n}`).join(' ')
    expect(findMentions(`${text} WHALE`, names)).toHaveLength(10_001)
  })
})

const stepsOf = (text: string, most?: number) => stepsOnText(() => findMentions(text, names), most)

/** Texts that took the square of their length, or could. */
const hostile: Record<string, (length: number) => string> = {
  'an e-mail that never comes': (length) => 'a.'.repeat(length / 2),
  'back-ticks': (length) => '`'.repeat(length),
  'back-ticks of every length': (length) => {
    let text = ''
    for (let n = 1; text.length < length; n++) text += `${'`'.repeat((n % 600) + 1)}a`
    return text
  },
  'single back-ticks in paragraphs': (length) => '`a\n\n'.repeat(length / 4),
  'one back-tick behind many paragraphs': (length) => `${'a\n\n'.repeat(length / 3)}\``,
  'fences that are none': (length) => '```a`\n'.repeat(length / 6),
  'fences at the end of lines': (length) => `${'>\n```'.repeat(length / 5)}\``,
  at: (length) => '@'.repeat(length),
  'at and name': (length) => '@WHALE'.repeat(length / 6),
  'quoted lines': (length) => '>\n'.repeat(length / 2),
  'spaces in front of quotes': (length) => `${' '.repeat(length)}>`,
  'links that never end': (length) => ']('.repeat(length / 2),
  URLs: (length) => 'a://'.repeat(length / 4),
  names: (length) => 'WHALE '.repeat(length / 6),
  'one word': (length) => 'W'.repeat(length),
  digits: (length) => '1'.repeat(length),
  marks: (length) => '\u0301'.repeat(length),
  'halves of pairs': (length) => '\ud83d'.repeat(length),
  mixed: (length) => '@a.b@`>\n```x`]( ://@WHALE'.repeat(length / 26),
}

describe('hostile texts', () => {
  it.each(Object.keys(hostile))('%s: four times the length takes at most six times as many steps', (name) => {
    const make = hostile[name] as (length: number) => string
    // Each takes at most ten steps for a character; the square of this length would not end.
    const most = 6 * stepsOf(make(50_000), 20 * 50_000)
    expect(stepsOf(make(200_000), most)).toBeLessThanOrEqual(most)
  })

  it('every character that is looked at is counted', () => {
    const ask = (text: string) => stepsOf(text) / text.length
    expect(ask('a'.repeat(10_000))).toBeGreaterThan(1)
    expect(ask('\u0301'.repeat(10_000))).toBeGreaterThan(2)
  })
})
