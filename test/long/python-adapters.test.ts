/** The adapters of the Python client: each with its framework next to a platform, by its tests, its types and its example. */

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { startFlotilla } from '../support/flotilla-process.ts'
import { projectFolder } from '../support/pages.ts'
import { clientFolder, provisionRover, runPython } from '../support/python-client.ts'

vi.setConfig({ testTimeout: 1_800_000 })

/** What the example of each prints, among other lines. */
const printed: Readonly<Record<string, readonly RegExp[]>> = {
  langchain: [
    /^The ferry to the island leaves at nine \(quay\)$/m,
    /^0\.\d\d log-2 /m,
    /^\['log-1', 'log-2'\]$/m,
  ],
  langgraph: [
    /^I do not know you yet\nI live near the lighthouse\nI never eat fish$/m,
    /\[\('memories', 'mia'\)\]/,
  ],
  llamaindex: [/^0\.\d\d The ferry leaves at nine$/m],
  adk: [/^user \S+ The ferry leaves at nine$/m],
  crewai: [/^0\.\d\d The ferry leaves at nine$/m, /^\{'timetable': 1, 'works': 1\}$/m],
}

const home = mkdtempSync(join(tmpdir(), 'fl-'))
const ends: (() => Promise<void>)[] = []
beforeAll(async () => {
  const atEnd = (kill: () => Promise<void>) => void ends.push(kill)
  await startFlotilla(home, { atEnd })
  await provisionRover(home, { atEnd })
}, 600_000)
afterAll(async () => {
  await Promise.all(ends.map((end) => end()))
  rmSync(home, { recursive: true, force: true })
})

test.each(Object.keys(printed))(
  '%s: its tests, its types, and the example that its page shows',
  async (name) => {
    const python = (args: string[], env: Record<string, string> = {}) =>
      runPython(args, env, clientFolder, name)
    const tests = join('adapter_tests', `test_${name}.py`)
    const examples = readdirSync(join(clientFolder, 'examples')).filter((file) => file.startsWith(name))
    expect(examples).toHaveLength(1)
    const example = join('examples', examples[0]!)

    const said = await python(['-m', 'pytest', '-q', '-p', 'no:cacheprovider', tests], {
      FLOTILLA_TEST_HOME: home,
    })
    expect(said).toMatch(/^[1-9]\d* passed in /m)

    const modules = join('src', 'flotilla_client', `${name}.py`)
    await python([
      '-m',
      'mypy',
      '--strict',
      '--cache-dir',
      join(home, `mypy-${name}`),
      modules,
      tests,
      example,
    ])

    const program = readFileSync(join(clientFolder, example), 'utf8')
    expect(readFileSync(join(projectFolder, 'docs', `python-${name}.md`), 'utf8')).toContain(program)
    const output = await python([example], { FLOTILLA_HOME: home })
    for (const line of printed[name]!) expect(output).toMatch(line)
  },
)
