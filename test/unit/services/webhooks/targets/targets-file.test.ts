/** The targets file: every field, every fault with its line. */

import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import pino from 'pino'
import { describe, expect, onTestFinished, test } from 'vitest'
import { AppError } from '#lib/errors.ts'
import { loadTargets, parseTargets, watchTargets } from '#services/webhooks/targets/targets-file.ts'
import { eventually } from '../../../../support/eventually.ts'
import { propertyRuns } from '../../../../support/property-runs.ts'
import { temporaryFolder } from '../../../../support/temporary.ts'

const signingKey = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const env = { TOKEN: 'token-of-the-audit', KEY: 'k1', SIGNING: signingKey, EMPTY: '', BROKEN: 'two\nlines' }
const parse = (text: string) => parseTargets(text, env, 'targets.yaml')
const one = (fields: string) => `targets:\n  audit:\n    url: https://a.example/hook\n    ${fields}\n`

function faultOf(text: string): AppError {
  try {
    parse(text)
  } catch (error) {
    expect(error).toBeInstanceOf(AppError)
    expect((error as AppError).code).toBe('invalid_configuration')
    return error as AppError
  }
  throw new Error('it was taken')
}

test('every field is read, and a missing one has its default', () => {
  const text = readFileSync(new URL('../../../../data/targets.yaml', import.meta.url), 'utf8')
  const { targets, secrets } = parse(text)
  expect([...targets.keys()]).toEqual(['audit', 'deploy.hook', 'n8n_local'])
  expect(targets.get('audit')).toEqual({
    name: 'audit',
    url: new URL('https://audit.example/hook?key=k1'),
    headers: { Authorization: 'Bearer token-of-the-audit', 'X-Team': 'fleet' },
    retry: 3,
    backoffMs: 50,
    events: ['task.completed', 'task.failed'],
    agents: ['WHALE', 'PULSE'],
    ordering: 'target',
    onExhausted: 'hold',
    holdHours: 1.5,
    signingSecrets: [signingKey, `whsec_${Buffer.alloc(24, 1).toString('base64')}`],
  })
  expect(targets.get('deploy.hook')).toMatchObject({
    headers: {},
    retry: 5,
    backoffMs: 100,
    events: null,
    agents: null,
    ordering: 'agent',
    onExhausted: 'dead_letter',
    holdHours: 72,
    signingSecrets: [],
  })
  expect(targets.get('n8n_local')!.url.href).toBe('http://n8n:5678/hook')
  // KEY is shorter than eight characters: it would be found everywhere.
  expect(secrets).toContain('token-of-the-audit')
  expect(secrets).toContain(signingKey)
  expect(secrets).toContain(signingKey.slice(6))
  expect(secrets).not.toContain('k1')
})

test.each(['targets: {}', 'targets:', 'targets: # none yet\n'])('%j means no targets', (text) => {
  expect(parse(text).targets.size).toBe(0)
})

test(`an alias may be used, and $\${ is written for \${`, () => {
  const { targets } = parse(
    `targets:\n  a:\n    url: https://a.example\n    headers: &own\n      X-Note: "$\${HOME}"\n  b:\n    url: https://b.example\n    headers: *own\n`,
  )
  expect(targets.get('b')!.headers).toEqual({ 'X-Note': `\${HOME}` })
})

test.each([
  'http://localhost:1/x',
  'http://127.0.0.1/x',
  'http://127.8.9.1',
  'http://[::1]:9/x',
  'HTTPS://A.example',
])('the address %s needs no leave', (url) => {
  expect(parse(`targets:\n  a:\n    url: "${url}"`).targets.size).toBe(1)
})

test.each<[string, string, number, RegExp]>([
  ['no file at all', '', 1, /must be a map/],
  ['a list', '- a\n', 1, /must be a map/],
  ['another key', 'targets: {}\ntarget:\n  a: 1', 2, /target is not a known key: did you mean targets\?/],
  ['a missing key', 'x: 1', 1, /targets is missing/],
  ['targets that are a list', 'targets:\n  - url: https://a.example', 1, /must be a map of names/],
  ['a target that is a text', 'targets:\n  a: https://a.example', 2, /must be a map with at least a url/],
  ['a missing url', 'targets:\n  a:\n    retry: 1', 2, /has no url/],
  ['a name with a space', 'targets:\n  a b:\n    url: https://a.example', 2, /is not a name/],
  ['a name that is a number', 'targets:\n  -1:\n    url: https://a.example', 2, /is not a name/],
  ['a mistyped key', one('backof_ms: 10'), 4, /did you mean backoff_ms\?/],
  ['a key in another case', one('Retry: 10'), 4, /did you mean retry\?/],
  ['an unknown key', one('frobnicate: 10'), 4, /not a known key; there are url/],
  ['a retry that is a text', one('retry: "3"'), 4, /retry is "3": a whole number from 0 to 100/],
  ['a secret at the wrong place', one('retry: whsec_c2VjcmV0'), 4, /retry must be a whole number from 0/],
  ['a retry that is a fraction', one('retry: 1.5'), 4, /whole number/],
  ['a retry below zero', one('retry: -1'), 4, /whole number/],
  ['a retry beyond all bounds', one('retry: 1e99'), 4, /whole number/],
  ['a retry that is no number', one('retry: .nan'), 4, /whole number/],
  ['an infinite back-off', one('backoff_ms: .inf'), 4, /whole number/],
  ['no back-off', one('backoff_ms: 0'), 4, /backoff_ms is 0: a whole number from 1 to 60,000/],
  ['a null', one('retry:'), 4, /whole number/],
  ['an unknown event', one('events: [task.done]'), 4, /must be one of task\.completed/],
  ['events that are a text', one('events: task.failed'), 4, /must be a list/],
  ['an empty list', one('agents: []'), 4, /leave it out for all/],
  ['an agent with a space', one('agents: ["a b"]'), 4, /visible ASCII/],
  ['an unknown ordering', one('ordering: none'), 4, /ordering is "none": target or agent/],
  ['hold without order', one('ordering: agent\n    on_exhausted: hold'), 5, /hold needs ordering: target/],
  ['no hours', one('hold_hours: 0'), 4, /from 0\.01/],
  ['a yes that is a text', one('allow_insecure: yes'), 4, /is "yes": true or false/],
  ['headers that are a list', one('headers: [a]'), 4, /map of header names/],
  ['a header that is a number', one('headers:\n      X-Version: 2'), 5, /put it in quotes/],
  ['a header name with a space', one('headers:\n      "X Y": a'), 5, /not a name that a header can have/],
  ['a header of the platform', one('headers:\n      X-Sequence: a'), 5, /set by the platform/],
  ['the content type', one('headers:\n      content-TYPE: text/plain'), 5, /set by the platform/],
  ['a header in two cases', one('headers:\n      X-A: a\n      x-a: b'), 6, /appears twice/],
  ['a line break in a header', one('headers:\n      X-A: "a\\r\\nX-B: c"'), 5, /cannot carry/],
  [
    'a line break in a variable',
    one(`headers:\n      X-A: \${BROKEN}`),
    5,
    /line break at the end of a variable/,
  ],
  ['an umlaut in a header', one('headers:\n      X-A: grün'), 5, /printable ASCII/],
  ['a header that is empty', one('headers:\n      X-A: ""'), 5, /must be a text/],
  [
    'an unset variable',
    one(`headers:\n      X-A: Bearer \${NOPE}`),
    5,
    /environment variable NOPE, which is unset/,
  ],
  ['an empty variable', one(`headers:\n      X-A: Bearer \${EMPTY}`), 5, /EMPTY, which is unset or empty/],
  [
    'a variable of the prototype',
    one(`headers:\n      X-A: \${constructor}`),
    5,
    /constructor, which is unset/,
  ],
  ['an open reference', one(`headers:\n      X-A: "\${TOKEN"`), 5, /begins no/],
  ['a reference to nothing', one(`headers:\n      X-A: "\${}"`), 5, /begins no/],
  ['a shell expression', one(`headers:\n      X-A: "\${TOKEN:-x}"`), 5, /begins no/],
  ['a weak signing secret', one('signing_secret: whsec_c2hvcnQ='), 4, /24 to 64 random bytes/],
  ['a signing secret in no base64', one('signing_secret: "not base64 at all, not at all!!"'), 4, /base64/],
  ['no signing secret', one('signing_secret: []'), 4, /one secret, or a list/],
  ['plain HTTP', 'targets:\n  a:\n    url: http://a.example', 3, /allow_insecure: true/],
  [
    'plain HTTP to a name like the loopback',
    'targets:\n  a:\n    url: http://127.0.0.1.a.example',
    3,
    /https/,
  ],
  ['another protocol', 'targets:\n  a:\n    url: file:///etc/passwd', 3, /must begin with https/],
  ['no URL', 'targets:\n  a:\n    url: a.example', 3, /is not a URL/],
  ['a user in the URL', 'targets:\n  a:\n    url: https://u:p@a.example', 3, /Authorization header/],
  ['a fragment', 'targets:\n  a:\n    url: https://a.example/#x', 3, /fragment/],
  [
    'the metadata of a cloud',
    'targets:\n  a:\n    url: http://169.254.169.254/\n    allow_insecure: true',
    3,
    /link-local/,
  ],
  ['the same in IPv6 form', 'targets:\n  a:\n    url: "https://[::ffff:169.254.169.254]/"', 3, /link-local/],
  ['the same as NAT64', 'targets:\n  a:\n    url: "https://[64:ff9b::a9fe:a9fe]/"', 3, /link-local/],
  ['the same as 6to4', 'targets:\n  a:\n    url: "https://[2002:a9fe:a9fe::1]/"', 3, /link-local/],
  ['the same as IPv4-compatible', 'targets:\n  a:\n    url: "https://[::169.254.169.254]/"', 3, /link-local/],
  [
    'the same as IPv4-translated',
    'targets:\n  a:\n    url: "https://[::ffff:0:169.254.169.254]/"',
    3,
    /link-local/,
  ],
  ['a variable in a key', `targets:\n  \${KEY}:\n    url: https://a.example`, 2, /is not a name/],
  ['a tab', 'targets:\n\ta:\n\t\turl: https://a.example', 2, /tab.*spaces/],
  ['a key that appears twice', one('retry: 1\n    retry: 2'), 5, /appears twice/],
  [
    'a target that appears twice',
    `${one('retry: 1')}  audit:\n    url: https://b.example`,
    5,
    /appears twice/,
  ],
  ['an open quote', 'targets:\n  a:\n    url: "https://a.example', 3, /missing/],
  ['an unknown alias', one('headers: *none'), 4, /alias/],
  ['a second document', `${one('retry: 1')}---\ntargets: {}`, 5, /second document/],
  ['an unknown tag', one('retry: !!js/function 1'), 4, /tag/],
  ['an alias of itself', 'targets: &t\n  a: *t', 2, /too large or too deep/],
])('%s is reported with its line and what to do', (_, text, line, message) => {
  const fault = faultOf(text)
  expect(fault.message).toMatch(message)
  expect(fault.errors!.map(({ path }) => path.split(',')[0])).toContain(`line ${line}`)
})

test('all faults are reported at once, in the order of the lines', () => {
  const fault = faultOf('targets:\n  a:\n    retry: x\n  b:\n    url: ftp://x\n    nope: 1\n  c: 1')
  expect(fault.message.split('\n').map((text) => text.trim().slice(0, 7))).toEqual([
    'Mend th',
    'line 2:',
    'line 3:',
    'line 5:',
    'line 6:',
    'line 7:',
  ])
})

test('aliases that grow without end are refused, quickly', () => {
  const levels = Array.from(
    { length: 12 },
    (_, n) => `l${n}: &l${n} [${Array(9).fill(n === 0 ? 'x' : `*l${n - 1}`)}]`,
  )
  expect(faultOf(`${levels.join('\n')}\ntargets: {}`).message).toMatch(/too large or too deep/)
  const deep = faultOf(`targets: ${'['.repeat(3_000)}${']'.repeat(3_000)}`)
  expect(deep.message.length).toBeLessThan(2_000)
})

test('a file of more levels, aliases or tokens than targets need is refused before it is parsed', () => {
  const many = (item: string, count: number) => Array(count).fill(item).join(', ')
  for (const text of [
    `targets: ${'{a: '.repeat(8_000)}`,
    `targets: ${'- '.repeat(8_000)}x`,
    `targets: ${'? '.repeat(8_000)}x`,
    `a: &a 1\nb: [${many('*a', 1_001)}]`,
    `targets: [${many('x', 60_000)}]`,
  ]) {
    expect(faultOf(text).message).toMatch(/line \d+: is too large or too deep[^\n]*$/)
  }
})

test('many targets may share one alias, which is that of the last anchor before it', () => {
  const names = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, n) => `  t${from + n}: *shared\n`).join('')
  const target = (url: string) => `&shared { url: https://${url} }\n`
  const text = `targets:\n  a: ${target('one.example')}${names(0, 450)}  b: ${target('two.example')}${names(450, 900)}`
  const { targets } = parse(text)
  expect(targets.size).toBe(902)
  expect([targets.get('t449')!.url.host, targets.get('t450')!.url.host]).toEqual([
    'one.example',
    'two.example',
  ])
})

test('a fault shows neither values of variables nor texts of the file', () => {
  const token = env.TOKEN
  const fault = faultOf(
    `targets:\n  a:\n    url: ftp://${token}/\${TOKEN}\n    headers:\n      X-A: "\${TOKEN}\\n"\n    signing_secret: \${TOKEN}\n    retry: ${token}\n    events: [${token}]\n`,
  )
  expect(JSON.stringify([fault.message, fault.errors])).not.toContain(token)
  expect(faultOf(`targets:\n  a: "${token}\n`).message).not.toContain(token)
  expect(faultOf(`targets: ${token}: ${token}\n`).message).not.toContain(token)
})

test('whatever the file holds: targets, or a fault that is short and shows no variable', () => {
  const good = readFileSync(new URL('../../../../data/targets.yaml', import.meta.url), 'utf8')
  const mutated = fc
    .tuple(fc.nat(good.length), fc.nat(12), fc.string({ unit: 'binary', maxLength: 12 }))
    .map(([at, cut, text]) => good.slice(0, at) + text + good.slice(at + cut))
  const yamlish = fc.array(
    fc.constantFrom(
      'targets',
      ':',
      ' ',
      '\n',
      '\n  ',
      '\n    ',
      '- ',
      '"',
      "'",
      '[',
      ']',
      '{',
      '}',
      '&a',
      '*a',
      '!',
      '|',
      '>',
      '#',
      '\t',
      `\${TOKEN}`,
      'url',
      '---',
      '%',
      '\0',
      '?',
      ',',
      '<<',
      '0x1',
      '~',
    ),
    { maxLength: 40 },
  )
  const texts = fc.oneof(
    mutated,
    yamlish.map((parts) => parts.join('')),
    fc.string({ unit: 'binary' }),
  )
  fc.assert(
    fc.property(texts, (text) => {
      try {
        parse(text)
      } catch (error) {
        expect(error).toMatchObject({ code: 'invalid_configuration' })
        const shown = JSON.stringify([(error as AppError).message, (error as AppError).errors])
        expect(shown.length).toBeLessThan(20_000)
        expect(shown).not.toContain(env.TOKEN)
      }
    }),
    { numRuns: propertyRuns(600) },
  )
})

describe('the file on disk', () => {
  const put = (text: string) => {
    const path = join(temporaryFolder(), 'targets.yaml')
    writeFileSync(path, text)
    return path
  }

  test('only an optional one may be absent', () => {
    const path = join(temporaryFolder(), 'none.yaml')
    expect(loadTargets(path, env, { optional: true }).targets.size).toBe(0)
    expect(() => loadTargets(path, env)).toThrow(/cannot be read \(ENOENT\)/)
  })

  test('a file that is too large, missing or not text is refused', () => {
    expect(() => loadTargets(put(`# ${'x'.repeat(1024 * 1024)}`), env)).toThrow(/larger than/)
    expect(() => loadTargets(temporaryFolder(), env)).toThrow(/regular file/)
    expect(() => loadTargets('/dev/zero', env)).toThrow(/regular file/)
    const pipe = join(temporaryFolder(), 'pipe')
    execFileSync('mkfifo', [pipe])
    expect(() => loadTargets(pipe, env)).toThrow(/regular file/)
    const path = put('')
    writeFileSync(path, Buffer.from([0x74, 0xff, 0xfe]))
    expect(() => loadTargets(path, env)).toThrow(/UTF-8/)
  })

  function watch(path: string, optional = false) {
    const lines: string[] = []
    const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) })
    const watched = watchTargets({ path, env, log, optional })
    onTestFinished(() => watched.close())
    const changes: number[] = []
    watched.onChange(({ targets }) => changes.push(targets.size))
    return { watched, changes, lines }
  }
  const text = (count: number) =>
    `targets:${count === 0 ? ' {}' : ''}\n${Array.from({ length: count }, (_, n) => `  t${n}:\n    url: https://a.example\n`).join('')}`
  const untilSize = (watched: ReturnType<typeof watchTargets>, size: number) =>
    eventually(`${size} targets`, () => watched.current().targets.size === size)

  test('a change is taken up: in place, by rename, through a link', async () => {
    const path = put(text(1))
    const { watched, changes } = watch(path)
    expect(watched.current().targets.size).toBe(1)
    const version = watched.current().version
    writeFileSync(path, text(2))
    await untilSize(watched, 2)
    expect(watched.current().version).not.toBe(version)
    writeFileSync(`${path}.new`, text(3))
    renameSync(`${path}.new`, path)
    await untilSize(watched, 3)
    const folder = temporaryFolder()
    mkdirSync(join(folder, 'v1'))
    writeFileSync(join(folder, 'v1', 'targets.yaml'), text(4))
    rmSync(path)
    symlinkSync(join(folder, 'v1', 'targets.yaml'), path)
    await untilSize(watched, 4)
    expect(changes).toEqual([2, 3, 4])
  })

  test('a faulty or vanished file is refused loudly, and the old targets stay until it is mended', async () => {
    const path = put(text(2))
    const { watched, changes, lines } = watch(path)
    writeFileSync(path, 'targets:\n  a:\n    url: 5\n')
    await eventually('the refusal', () => watched.refused()?.includes('line 3'))
    expect(watched.current().targets.size).toBe(2)
    expect(lines.join('')).toContain('webhooks.targets-refused')
    rmSync(path)
    await eventually('the second refusal', () => watched.refused()?.includes('is gone'))
    expect(watched.current().targets.size).toBe(2)
    writeFileSync(path, text(2))
    await eventually('the end of the refusal', () => watched.refused() === null)
    writeFileSync(path, text(0))
    await untilSize(watched, 0)
    expect(changes).toEqual([0])
  })

  test('a default file that appears is taken up', async () => {
    const path = join(temporaryFolder(), 'targets.yaml')
    const { watched } = watch(path, true)
    expect(watched.current().targets.size).toBe(0)
    writeFileSync(path, text(1))
    await untilSize(watched, 1)
  })
})
