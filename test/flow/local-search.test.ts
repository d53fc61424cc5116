/** Local search as its users meet it: through the bins, in processes of their own. */

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { linesOf, sampleRecords } from '../../packages/stidx/test/support/index.ts'
import { eventually } from '../support/eventually.ts'
import { temporaryFolder } from '../support/temporary.ts'

const project = fileURLToPath(new URL('../../', import.meta.url))
const stidxFolder = join(project, 'packages/stidx')
const bin = join(stidxFolder, 'bin/stidx.cjs')
const launcher = join(project, 'bin/flotilla.js')
const main = join(project, 'cli/main.ts')

interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

function run(program: string, args: string[], cwd: string, env: Record<string, string> = {}): Ended {
  const { PATH = '' } = process.env
  const ended = spawnSync(process.execPath, [program, ...args], {
    cwd,
    env: { PATH, ...env },
    encoding: 'utf8',
    timeout: 60_000,
  })
  return { code: ended.status, stdout: ended.stdout, stderr: ended.stderr }
}

const stidx = (args: string[], cwd: string, env?: Record<string, string>) => run(bin, args, cwd, env)

const notes = [
  {
    id: 'n1',
    title: 'Blue green deployment',
    slug: 'blue-green',
    path: 'ops/deploy.md',
    body: 'Switch the traffic.',
    tags: ['ops'],
    status: 'active',
    collection: 'posts',
  },
  {
    id: 'n2',
    title: 'Whale watching',
    body: 'A green sea and a \u001b[31mred\u001b[0m boat.',
    tags: ['sea'],
    status: 'archived',
    collection: 'posts',
  },
  { mind_path: 'inbox/idea.md', title: 'An idea', body: 'Nothing yet: -x is an option.' },
]

/** The two files that a search needs. */
function copySearch(folder: string): void {
  for (const name of ['bin/stidx.cjs', 'dist/stidx-search.js']) {
    cpSync(join(stidxFolder, name), join(folder, name))
  }
}

/** A folder with records and, in its usual place, their index. */
function indexed(): string {
  const folder = temporaryFolder()
  writeFileSync(join(folder, 'notes.jsonl'), linesOf(notes))
  const ended = stidx(['index-jsonl', '--input', 'notes.jsonl', '--output', 'index.stidx', '--json'], folder)
  expect(`${ended.code} ${ended.stderr}`).toBe('0 ')
  expect(JSON.parse(ended.stdout)).toMatchObject({
    index: 'index.stidx',
    records: 3,
    duplicates: 0,
    faults: 0,
  })
  return folder
}

/** Many processes, one after the other: patient with a busy machine. */
const patient = { timeout: 180_000 }

describe('stidx', patient, () => {
  it('indexes, searches, gets and prints statistics, as JSON', () => {
    const folder = indexed()
    const found = stidx(['search', 'green', 'deployment', '--limit', '1', '--json'], folder)
    expect(`${found.code} ${found.stderr}`).toBe('0 ')
    expect(JSON.parse(found.stdout)).toEqual({
      query: 'green deployment',
      total: 2,
      took_ms: expect.any(Number),
      results: [
        {
          id: 'n1',
          score: expect.any(Number),
          title: 'Blue green deployment',
          slug: 'blue-green',
          path: 'ops/deploy.md',
          field_score: 195,
          matched_fields: ['title', 'slug', 'path'],
          payload: { tags: ['ops'], status: 'active', collection: 'posts' },
        },
      ],
    })
    const got = stidx(['get', 'n1', '--json'], folder)
    expect([got.code, JSON.parse(got.stdout)]).toEqual([0, notes[0]])
    const stats = stidx(['stats', 'index.stidx', '--json'], folder)
    expect([stats.code, JSON.parse(stats.stdout)]).toEqual([
      0,
      expect.objectContaining({ format: 'STIDX001', layout: 1, records: 3 }),
    ])
  })

  it('filters by option and in the query, finds phrases and beginnings, and corrects', () => {
    const folder = indexed()
    const ids = (...args: string[]) =>
      (
        JSON.parse(stidx(['search', '--json', ...args], folder).stdout) as { results: { id: string }[] }
      ).results.map(({ id }) => id)
    expect(ids('green', '--status', 'archived')).toEqual(['n2'])
    expect(ids('green', '--collection=posts', '--tag', 'ops')).toEqual(['n1'])
    expect(ids('--tag', 'sea')).toEqual(['n2'])
    expect(ids('tag:sea green')).toEqual(['n2'])
    // The exact title, but not of this tag.
    expect(ids('Whale watching', '--tag', 'ops')).toEqual([])
    expect(ids('"green deployment"')).toEqual(['n1'])
    expect(ids('"deployment green"')).toEqual(['n1', 'n2'])
    expect(ids('deploym*')).toEqual(['n1'])
    expect(ids('title:green')).toEqual(['n1'])
    expect(ids('nosuchfield:whale')).toEqual(['n2'])
    expect(ids('"unbalanced whale')).toEqual(['n2'])
    expect(ids('* whale')).toEqual(['n2'])
    expect(ids('--', '-x')).toHaveLength(1)
    const corrected = JSON.parse(stidx(['search', 'waching', '--json'], folder).stdout)
    expect(corrected).toMatchObject({ corrected: { waching: 'watching' }, total: 1 })
    const relaxed = stidx(['search', 'status:none "deployment green"', '--json'], folder)
    expect(JSON.parse(relaxed.stdout)).toMatchObject({ relaxed: true, total: 2 })
  })

  it('prints a table that cannot steer the terminal', () => {
    const { code, stdout, stderr } = stidx(['search', 'green'], indexed())
    expect(`${code} ${stderr}`).toBe('0 ')
    expect(stdout).toMatch(/SCORE +ID +FIELDS +TITLE\n.*n1 +title slug +Blue green deployment/)
    expect(stdout).toContain('2 of 2 in ')
    expect(stdout).not.toContain('\u001b')
  })

  it('ends with 1 where nothing is found and 2 on wrong use, always with one document for --json', () => {
    const folder = indexed()
    const outcomes = [
      [['search', 'xyzzy'], 1, { total: 0, results: [] }],
      [['get', 'nobody'], 1, { error: { code: 'not_found', message: 'there is no record "nobody"' } }],
      [['search'], 2, { error: { code: 'wrong_use', message: 'search needs a query' } }],
      [
        ['search', 'a', '--limit', '0'],
        2,
        { error: { code: 'wrong_use', message: '--limit is "0": a whole number from 1 to 10,000' } },
      ],
      [
        ['search', '-x'],
        2,
        { error: { code: 'wrong_use', message: expect.stringContaining('unknown option -x') } },
      ],
      [
        ['search', 'a', '--index', 'none'],
        2,
        { error: { code: 'bad_index', message: 'none cannot be read: there is no such file' } },
      ],
      [
        ['stats', 'notes.jsonl'],
        2,
        { error: { code: 'bad_index', message: 'notes.jsonl is no STIDX001 index' } },
      ],
      [['get', 'a', 'b'], 2, { error: { code: 'wrong_use', message: 'get needs one id' } }],
      [['constructor'], 2, { error: { code: 'wrong_use', message: 'unknown command constructor' } }],
      [
        ['index-jsonl', '--input', 'none', '--output', 'x'],
        2,
        { error: { code: 'bad_input', message: expect.any(String) } },
      ],
    ] as const
    for (const [args, code, document] of outcomes) {
      const ended = stidx([...args, '--json'], folder)
      expect([args, ended.code, JSON.parse(ended.stdout)]).toEqual([
        args,
        code,
        expect.objectContaining(document),
      ])
      expect(ended.stderr.trim().split('\n').length).toBe(1)
    }
  })

  it('takes the index from --index, then $STIDX_INDEX, then ./index.stidx', () => {
    const folder = indexed()
    const elsewhere = temporaryFolder()
    const file = join(folder, 'index.stidx')
    expect(stidx(['get', 'n1'], elsewhere).code).toBe(2)
    expect(stidx(['get', 'n1'], elsewhere, { STIDX_INDEX: file }).code).toBe(0)
    expect(stidx(['get', 'n1', '--index', file], elsewhere, { STIDX_INDEX: 'wrong' }).code).toBe(0)
    expect(stidx(['get', 'n1'], folder).code).toBe(0)
  })

  it('gives the same answers with and without its kept compiled form, and where it cannot keep one', () => {
    const folder = indexed()
    const copy = temporaryFolder()
    const own = join(copy, 'dist')
    copySearch(copy)
    const answer = () => {
      const ended = run(join(copy, 'bin/stidx.cjs'), ['search', 'green', '--json'], folder)
      return [ended.code, ended.stderr, ended.stdout.replace(/"took_ms":[\d.]+/, '')]
    }
    const kept = () => readdirSync(own).filter((name) => name.endsWith('.cache'))
    const first = answer()
    expect(kept()).toHaveLength(1)
    expect(answer()).toEqual(first)
    writeFileSync(join(own, kept()[0]!), 'garbage')
    expect(answer()).toEqual(first)
    writeFileSync(join(own, 'stidx-search.js'), `${readFileSync(join(own, 'stidx-search.js'), 'utf8')}\n`)
    chmodSync(own, 0o500)
    expect(answer()).toEqual(first)
    chmodSync(own, 0o700)
  })

  it('names faulty lines, goes on without them, and stops at the first with --strict', () => {
    const folder = temporaryFolder()
    writeFileSync(join(folder, 'in.jsonl'), '{"id":"a","title":"one"}\n{broken\n{"id":7}\n')
    const loose = stidx(['index-jsonl', '--input', 'in.jsonl', '--output', 'o.stidx'], folder)
    expect(loose.code).toBe(0)
    expect(loose.stderr).toMatch(/^line 2: .+\nline 3: .+\n$/)
    expect(loose.stdout).toMatch(/^1 records in o\.stidx, .*2 faulty lines skipped/)
    const strict = stidx(['index-jsonl', '--input', 'in.jsonl', '--output', 'p.stidx', '--strict'], folder)
    expect([strict.code, strict.stdout]).toEqual([2, ''])
    expect(strict.stderr).toMatch(/^line 2: /)
    expect(readdirSync(folder).sort()).toEqual(['in.jsonl', 'o.stidx'])
  })
})

describe('a build that does not end well', patient, () => {
  it('leaves the old index whole when there is no more room, and clears away what it wrote', () => {
    const folder = indexed()
    const before = readFileSync(join(folder, 'index.stidx'))
    writeFileSync(join(folder, 'many.jsonl'), linesOf(sampleRecords(2000)))
    // A limit on the length of files fails writes in mid-build as a full disk does, and needs no disk of its own.
    const command = 'ulimit -f 64; exec "$0" "$@" index-jsonl --input many.jsonl --output index.stidx'
    const ended = spawnSync('sh', ['-c', command, process.execPath, bin], {
      cwd: folder,
      encoding: 'utf8',
      timeout: 60_000,
    })
    expect([ended.status, ended.stdout]).toEqual([2, ''])
    expect(ended.stderr).toBe('cannot write index.stidx: the file would be larger than is allowed\n')
    expect(readFileSync(join(folder, 'index.stidx')).equals(before)).toBe(true)
    expect(readdirSync(folder).sort()).toEqual(['index.stidx', 'many.jsonl', 'notes.jsonl'])
  })

  it('leaves the old index whole when it is killed, and the next build clears away the rest', async () => {
    const folder = indexed()
    const before = readFileSync(join(folder, 'index.stidx'))
    const args = ['index-jsonl', '--input', '-', '--output', 'index.stidx']
    const child = spawn(process.execPath, [bin, ...args], { cwd: folder })
    child.stdin.on('error', () => {})
    child.stdin.write(linesOf(sampleRecords(500)))
    const left = () => readdirSync(folder).filter((name) => name.startsWith('.index.stidx.building-'))
    await eventually('the build has begun', () => left().length === 1)
    child.kill('SIGKILL')
    await once(child, 'exit')
    expect(left()).toHaveLength(1)
    expect(readFileSync(join(folder, 'index.stidx')).equals(before)).toBe(true)
    const next = stidx(['index-jsonl', '--input', 'notes.jsonl', '--output', 'index.stidx'], folder)
    expect([next.code, left()]).toEqual([0, []])
  })
})

describe('flotilla', patient, () => {
  it('has the same commands, from its bin and from its own program', () => {
    const folder = indexed()
    const plain = (ended: Ended) => [ended.code, ended.stdout.replace(/"took_ms":[\d.]+/, '')]
    const expected = plain(stidx(['search', 'green', '--json'], folder))
    expect(plain(run(launcher, ['search', 'green', '--json'], folder))).toEqual(expected)
    expect(plain(run(main, ['search', 'green', '--json'], folder))).toEqual(expected)
    const built = run(main, ['index-jsonl', '--input', 'notes.jsonl', '--output', 'b.stidx'], folder)
    expect(built.code).toBe(0)
    expect(readFileSync(join(folder, 'b.stidx')).equals(readFileSync(join(folder, 'index.stidx')))).toBe(true)
  })

  it('loads nothing of the platform for them: a search needs its two files alone', () => {
    const folder = indexed()
    const own = temporaryFolder()
    copySearch(join(own, 'packages/stidx'))
    cpSync(launcher, join(own, 'bin/flotilla.js'))
    writeFileSync(join(own, 'package.json'), '{"type":"module"}')
    expect(run(join(own, 'bin/flotilla.js'), ['get', 'n1', '--json'], folder).code).toBe(0)
  })

  it('loads nothing at all to say its version', () => {
    const own = temporaryFolder()
    cpSync(launcher, join(own, 'bin/flotilla.js'))
    writeFileSync(join(own, 'package.json'), '{"type":"module","version":"1.2.3"}')
    expect(run(join(own, 'bin/flotilla.js'), ['--version'], own)).toMatchObject({
      code: 0,
      stdout: '1.2.3\n',
    })
  })
})
