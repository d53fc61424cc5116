/** Builds before a start: npm runs no scripts of packages, so `npm start` and `npm test` build them. */

import { spawnSync } from 'node:child_process'
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { projectFolder } from '../../support/pages.ts'
import { temporaryFolder } from '../../support/temporary.ts'

const made = {
  'packages/stidx': 'dist/stidx-search.js',
  'packages/client': 'dist/client.js',
  console: 'dist/index.html',
}

/** A project whose builds only note that they ran. */
function project(tools: readonly string[] = ['rolldown', 'typescript', 'vite']) {
  const root = temporaryFolder()
  const write = (file: string, text: string) => {
    mkdirSync(dirname(join(root, file)), { recursive: true })
    writeFileSync(join(root, file), text)
  }
  write('package-lock.json', '{}')
  for (const tool of tools) write(`node_modules/${tool}/package.json`, '{}')
  for (const [folder, file] of Object.entries(made)) {
    write(`${folder}/package.json`, '{"type":"module"}')
    write(`${folder}/src/a.ts`, '')
    write(
      `${folder}/${folder === 'console' ? '' : 'scripts/'}build.ts`,
      `import { appendFileSync, existsSync, mkdirSync, writeFileSync } from 'node:fs'
       appendFileSync(${JSON.stringify(join(root, 'ran'))}, '${folder} ')
       console.log('built')
       if (existsSync('src/fault')) process.exit(1)
       mkdirSync('dist', { recursive: true })
       writeFileSync('${file}', '')`,
    )
  }
  return {
    root,
    write,
    /** Exit code, which builds ran, and what it wrote to standard output. */
    run(...options: string[]) {
      const script = join(projectFolder, 'scripts/build.js')
      const { status, stdout, stderr } = spawnSync(process.execPath, [script, '--root', root, ...options])
      const ran = existsSync(join(root, 'ran'))
        ? readFileSync(join(root, 'ran'), 'utf8').trim().split(' ')
        : []
      rmSync(join(root, 'ran'), { force: true })
      return { code: status, ran, stdout: String(stdout), stderr: String(stderr) }
    },
  }
}

const all = Object.keys(made)

it('builds missing and outdated packages only', () => {
  const { root, write, run } = project()
  expect(run('--if-old')).toMatchObject({ code: 0, ran: all, stdout: '' })
  expect(run('--if-old')).toEqual({ code: 0, ran: [], stdout: '', stderr: '' })
  appendFileSync(join(root, 'console/src/a.ts'), ' ')
  expect(run('--if-old')).toMatchObject({ code: 0, ran: ['console'] })
  // A file that is not a source changes nothing.
  write('packages/client/test/a.test.ts', '')
  write('console/node_modules/x/index.js', '')
  expect(run('--if-old').ran).toEqual([])
  rmSync(join(root, 'packages/stidx/dist'), { recursive: true })
  expect(run('--if-old').ran).toEqual(['packages/stidx'])
  write('package-lock.json', '{"changed":true}')
  expect(run('--if-old').ran).toEqual(all)
  expect(run().ran).toEqual(all)
})

it('fails with a build that fails, and tries it again the next time', () => {
  const { root, write, run } = project()
  write('packages/client/src/fault', '')
  expect(run('--if-old')).toMatchObject({ code: 1, ran: all })
  const started = run('--if-old', '--optional')
  expect(started).toMatchObject({ code: 0, ran: ['packages/client'] })
  expect(started.stderr).toContain('packages/client could not be built; going on without')
  rmSync(join(root, 'packages/client/src/fault'))
  expect(run('--if-old')).toMatchObject({ code: 0, ran: ['packages/client'] })
})

it('leaves a start without development dependencies alone', () => {
  const { run } = project([])
  expect(run('--if-old', '--optional')).toEqual({ code: 0, ran: [], stdout: '', stderr: '' })
  expect(run('--if-old')).toMatchObject({ code: 1, ran: [], stderr: expect.stringContaining('npm ci') })
})

it('is what start, test and the image call, because an installation runs no scripts', () => {
  const read = (file: string) => readFileSync(join(projectFolder, file), 'utf8')
  expect(read('.npmrc')).toMatch(/^ignore-scripts=true$/m)
  const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }
  for (const name of ['start', 'test', 'test:servers']) {
    expect(scripts[name], name).toMatch(/node scripts\/build\.js --if-old\b.* && /)
  }
  expect(scripts.build).toMatch(/^node scripts\/build\.js && /)
  // npm would not run these either.
  expect(Object.keys(scripts).filter((name) => /^(pre|post)|^(install|prepare)$/.test(name))).toEqual([])
  expect(read('scripts/pack.ts')).toContain("runScript(['scripts/build.js', '--if-old'])")
  expect(read('Dockerfile')).toMatch(/^RUN npm run pack$/m)
})
