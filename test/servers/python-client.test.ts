/** The Python client: its own tests next to a platform, its linters, and its package in an empty environment. */

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { startFlotilla } from '../support/flotilla-process.ts'
import { clientFolder, provisionRover, runPython } from '../support/python-client.ts'
import { temporaryFolder } from '../support/temporary.ts'

vi.setConfig({ testTimeout: 600_000 })

it('keeps what its tests say, on a running platform and on servers of their own', async () => {
  const home = temporaryFolder()
  await startFlotilla(home)
  await provisionRover(home)
  const said = await runPython(['-m', 'pytest', '-q', '-p', 'no:cacheprovider'], { FLOTILLA_TEST_HOME: home })
  expect(said).toMatch(/\b\d{3} passed/)
  expect(said).not.toMatch(/skipped|failed/)
})

it('is found faultless by its linter, its formatter and the checker of its types', async () => {
  const caches = temporaryFolder()
  const ruff = { RUFF_CACHE_DIR: join(caches, 'ruff') }
  await runPython(['-m', 'ruff', 'check', '.'], ruff)
  await runPython(['-m', 'ruff', 'format', '--check', '.'], ruff)
  await runPython(['-m', 'mypy', '--cache-dir', join(caches, 'mypy')])
})

it('is built as a wheel and as sources, and the wheel is imported where nothing else of it is', async () => {
  const built = temporaryFolder()
  const installed = temporaryFolder()
  await runPython(['-m', 'hatchling', 'build', '-d', built])
  const files = readdirSync(built).sort()
  expect(files).toEqual([
    expect.stringMatching(/^flotilla_client-.*-py3-none-any\.whl$/),
    expect.stringMatching(/^flotilla_client-.*\.tar\.gz$/),
  ])
  const pip = ['-m', 'pip', 'install', '--quiet', '--no-deps', '--no-index', '--target', installed]
  await runPython([...pip, join(built, files[0]!)])
  const program = 'import flotilla_client as f; print(f.__file__, f.Flotilla(api_key="k"), f.AsyncFlotilla)'
  const said = await runPython(['-W', 'error', '-c', program], { PYTHONPATH: installed }, installed)
  expect(said).toContain(installed)
  expect(said).not.toContain(clientFolder)
  expect(readdirSync(join(installed, 'flotilla_client'))).toContain('py.typed')
})
