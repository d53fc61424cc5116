/** The package, installed in an empty folder as its users do: under Node 24 and an older one, in odd folders, without rights. */

import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { sourceFiles } from '../../scripts/source-files.ts'
import { describeUpgrades } from '../flow/upgrade.promises.ts'
import { commandOfToday, createProcesses } from '../support/distributed-process.ts'
import { openStack } from '../support/distributed-servers.ts'
import { installPackage, librariesOf, makePackage, olderNode, withNode } from '../support/package.ts'
import { projectFolder } from '../support/pages.ts'
import { openShell, type Shell } from '../support/shell.ts'
import { fixtureNames, openEmbeddedFixture } from '../support/upgrade-stack.ts'

// Only ends a hang: npm fetches a hundred megabytes.
vi.setConfig({ testTimeout: 600_000, hookTimeout: 600_000 })

const megabytesMax = 200
const ready = /^ready$/m

let folder: string
let tarball: string
/** Names with spaces and letters of several scripts. */
let home: string
let installed: string
let env: Record<string, string>

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'fl-package-'))
  // Another user of the system has to get through.
  chmodSync(folder, 0o755)
  tarball = makePackage(folder)
  env = withNode(process.execPath, join(folder, 'cache'))
  home = join(folder, "Éva's flotte 船 №1")
  installPackage(tarball, home, env)
  installed = join(home, 'node_modules/flotilla')
})
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 }))

/** A shell whose processes end with the test. */
function shellIn(...place: Parameters<typeof openShell>): Shell {
  const shell = openShell(...place)
  onTestFinished(() => shell.close())
  return shell
}

/** Files that run or are read by those that do. A source is a .ts file in the clone and a .js file in the package. */
const needed = [
  'bin/flotilla.js',
  'bin/pinned-node.js',
  'bin/start-environment.json',
  'cli/library.ts',
  'cli/main.ts',
  'console/dist/index.html',
  'engines/embedder/embed-thread.ts',
  'engines/event-log/embedded/reader-thread.ts',
  'engines/event-log/embedded/writer-thread.ts',
  'engines/relational/pglite-initdb.ts',
  'engines/relational/pglite-thread.ts',
  'engines/vectors/embedded/checkpoint-thread.ts',
  'engines/vectors/embedded/merge-process.ts',
  'engines/vectors/embedded/thread.ts',
  'packages/client/dist/client.js',
  'packages/stidx/bin/stidx.cjs',
  'packages/stidx/dist/stidx-index.cjs',
  'packages/stidx/dist/stidx-search.js',
  'runtime/http/json-thread.ts',
  'runtime/yaml-file/parse-thread.ts',
  'services/vectors/accept/upsert-thread.ts',
]
/** Each file of these kinds is read by some part, or sought by somebody. */
const kinds =
  /^(?!docs\/pictures|bench|test|scripts|playground|node_modules|deploy\/(charts|compose)|\.).*\.(sql|avsc|yaml|md|html|css|service)$/
const notPacked = /^(CONTRIBUTING|packages\/[^/]*\/(?!README)|console\/(?!dist)|docker-compose)/

describe('its files', () => {
  const listOf = (command: string, ...args: string[]) =>
    execFileSync(command, args, { cwd: projectFolder, encoding: 'utf8', maxBuffer: 64 << 20 })
      .trim()
      .split('\n')

  test('the clone and the package hold the same files that must exist', () => {
    const clone = listOf('git', 'ls-files', '-co', '--exclude-standard')
    const built = ['console/dist', 'packages/client/dist', 'packages/stidx/dist'].flatMap((at) =>
      readdirSync(join(projectFolder, at), { recursive: true }).map((file) => `${at}/${file}`),
    )
    const packed = new Set(listOf('tar', 'tzf', tarball).map((file) => file.replace(/^package\//, '')))
    const ofKinds = [...clone, ...built].filter((file) => kinds.test(file) && !notPacked.test(file))
    expect(ofKinds.length).toBeGreaterThan(60)
    const all = new Set([...clone, ...built])
    expect([...needed, ...ofKinds].filter((file) => !all.has(file))).toEqual([])
    const asPacked = (file: string) => file.replace(/\.ts$/, '.js')
    expect([...needed, ...ofKinds].filter((file) => !packed.has(asPacked(file)))).toEqual([])
    // Each compiled file has its map, and no source is left that Node would refuse to load.
    for (const file of needed.filter((one) => one.endsWith('.ts')))
      expect(packed).toContain(`${asPacked(file)}.map`)
    expect([...packed].filter((file) => !file.startsWith('docs/') && /(?<!\.d)\.tsx?$/.test(file))).toEqual(
      [],
    )
  })

  test('every file that a thread or a process runs is in the list', () => {
    const named = sourceFiles()
      .filter((file) => /^(cli|engines|lib|operations|runtime|services|topics)\//.test(file))
      .flatMap((file) => {
        const text = readFileSync(join(projectFolder, file), 'utf8')
        return [...text.matchAll(/new URL\('(\.[^']+\.ts)', import\.meta\.url\)/g)].map(([, to]) =>
          join(dirname(file), to!),
        )
      })
    expect(named.length).toBeGreaterThan(8)
    expect(named.filter((file) => !needed.includes(file))).toEqual([])
  })

  test('it is small, and brings neither a Node nor what development needs', () => {
    const kilobytes = Number(execFileSync('du', ['-sk', home], { encoding: 'utf8' }).split('\t')[0])
    expect(kilobytes / 1024).toBeLessThan(megabytesMax)
    const packages = readdirSync(join(home, 'node_modules'), { recursive: true }).map(String)
    const unwanted =
      /(^|\/)(node-(linux|darwin|win|bin)-[^/]*|typescript|vitest|rolldown|firebase-admin|@platformatic|@connectrpc)$/
    expect(packages.filter((name) => unwanted.test(name))).toEqual([])
  })
})

describe('under Node 24', () => {
  test('it serves, and the tour, the console, the commands and a backup work', async () => {
    const shell = shellIn(home, env)
    const platform = await shell.leaveRunning('npx flotilla start', ready)
    expect(await shell.run('npx flotilla tour')).toContain('every step worked')
    expect(await shell.run('npx flotilla doctor')).toMatch(/All is well/)
    const { base_url } = JSON.parse(readFileSync(join(home, '.flotilla/run/addresses.json'), 'utf8'))
    const page = await (await fetch(`${base_url}/console/`)).text()
    const [, script] = /src="([^"]+\.js)"/.exec(page)!
    const asset = await fetch(new URL(script!, base_url))
    expect([asset.status, asset.headers.get('content-type')]).toEqual([
      200,
      expect.stringContaining('javascript'),
    ])
    expect((await fetch(`${base_url}/api/v1/openapi.json`)).status).toBe(200)
    // The package stays as npm made it: caches are the user's.
    expect(readdirSync(installed)).not.toContain('node_modules')
    expect(await shell.run('npx flotilla agents list --json')).toContain('tour')
    await shell.run('npx flotilla backup copy')
    await platform.end()
    await shell.run('rm -rf .flotilla && npx flotilla restore copy')
    const again = await shell.leaveRunning('npx flotilla start', ready)
    expect(await shell.run('npx flotilla agents list --json')).toContain('tour')
    await again.end()
  })

  test("search in a file of one's own works", async () => {
    const shell = shellIn(home, env)
    await shell.run(
      `echo '{"id":"a","title":"Blue deploy"}' > notes.jsonl && npx flotilla index-jsonl --input notes.jsonl --output i.stidx`,
    )
    expect(await shell.run('npx flotilla search deploy --index i.stidx --json')).toContain('"id":"a"')
  })

  test.each([
    [
      'KAFKA_BROKERS=127.0.0.1:1',
      /KAFKA_BROKERS needs a package that is not installed: npm install @platformatic\/kafka@/,
    ],
    [
      'FIREBASE_PROJECT_ID=p',
      /FIREBASE_PROJECT_ID needs a package that is not installed: npm install firebase-admin@/,
    ],
    [
      'QDRANT_URL=http://127.0.0.1:1 QDRANT_GRPC_URL=http://127.0.0.1:1',
      /QDRANT_GRPC_URL needs packages that are not installed: npm install @qdrant\/js-client-grpc@/,
    ],
  ])('with %s it says what to install', async (setting, sentence) => {
    const shell = shellIn(home, env)
    expect(await shell.run(`${setting} npx flotilla start 2>&1 || echo "ended with $?"`)).toMatch(sentence)
  })

  test('with the libraries that it names it runs on servers', async () => {
    const stack = await openStack()
    onTestFinished(() => stack.close())
    const servers = await stack.newEnvironment()
    const place = join(folder, 'servers')
    installPackage(tarball, place, env, librariesOf(installed))
    const shell = shellIn(place, { ...env, ...servers })
    const platform = await shell.leaveRunning('npx flotilla start', ready)
    expect(await shell.run('npx flotilla tour')).toContain('every step worked')
    await platform.end()
  })

  test('two installs run at once; one of them cannot be written to, and was made without the network', async () => {
    const second = join(folder, 'second')
    installPackage(tarball, second, env, ['--offline'])
    execFileSync('chmod', ['-R', 'a-w', second])
    onTestFinished(() => void execFileSync('chmod', ['-R', 'u+w', second]))
    const data = join(folder, 'data')
    mkdirSync(data)
    const isRoot = process.getuid?.() === 0
    const uid = 65_534
    if (isRoot) execFileSync('chown', [String(uid), data])
    const others = {
      ...env,
      FLOTILLA_HOME: join(data, 'home'),
      HOME: data,
      XDG_CACHE_HOME: join(data, 'cache'),
    }
    const first = { ...env, FLOTILLA_HOME: join(folder, 'first') }
    const shells = [shellIn(home, first), shellIn(second, others, isRoot ? { uid } : {})] as const
    const started = await Promise.all(
      shells.map((shell) => shell.leaveRunning('node_modules/.bin/flotilla start', ready)),
    )
    expect(await shells[1].run('node_modules/.bin/flotilla tour')).toContain('every step worked')
    for (const shell of shells) {
      expect(await shell.run('node_modules/.bin/flotilla doctor')).toMatch(/All is well/)
    }
    expect(readdirSync(second).sort()).toEqual(['node_modules', 'package-lock.json', 'package.json'])
    await Promise.all(started.map((one) => one.end()))
  })
})

describe('under an older Node', () => {
  let old: Record<string, string>
  let place: string
  beforeAll(() => {
    place = join(folder, 'older')
    old = withNode(olderNode(join(folder, 'node')), join(folder, 'cache'))
    // Not from the cache alone: npm takes earlier versions of packages whose newest ones need a newer Node.
    installPackage(tarball, place, old, ['--prefer-offline'])
  })

  const cachedNodes = () => readdirSync(join(folder, 'cache/flotilla')).filter((name) => name !== 'compiled')

  test('without a way to fetch Node 24 it says so', async () => {
    const shell = shellIn(place, {
      ...old,
      npm_config_offline: 'true',
      npm_config_cache: join(folder, 'no-cache'),
    })
    const said = await shell.run('npx flotilla doctor 2>&1 || echo "ended with $?"')
    expect(said).toMatch(
      /^flotilla needs Node 24 or later, this is 2\d.*npm could not fetch node-.*Install Node 24\.$/m,
    )
    expect(said).toContain('ended with 2')
    expect(cachedNodes()).toEqual([])
  })

  test('the pinned one is fetched once, and the tour passes', async () => {
    const shell = shellIn(place, old)
    const platform = await shell.leaveRunning('npx flotilla start', ready)
    expect(platform.output()).toMatch(/npm fetches node-.* once/)
    expect(await shell.run('npx flotilla tour 2>&1')).not.toContain('npm fetches')
    const library = `const platform = await (await import('flotilla')).startPlatform()
      console.log((await platform.provisionAgent('scout')).agentId); await platform.stop()`
    expect(await shell.run(`node --input-type=module -e "${library}"`)).toBe('scout\n')
    expect(cachedNodes()).toEqual([expect.stringMatching(/^node-.*-24\./)])
    await platform.end()
  })
})

const latest = fixtureNames().slice(-1)
describe('on the data of the version before', () => {
  describeUpgrades((name) => openEmbeddedFixture(name, join(installed, 'bin/flotilla.js')), latest)
})

test('one data directory goes from the clone to the package and back', async () => {
  const data = join(folder, 'moved')
  const agents: string[] = []
  for (const command of [commandOfToday, join(installed, 'bin/flotilla.js'), commandOfToday]) {
    const processes = createProcesses({}, command)
    onTestFinished(() => processes.close())
    const platform = await processes.start([], { home: data })
    const agent = `agent-${agents.length}`
    await processes.run(['agents', 'provision', agent], data)
    await processes.run(['notes', 'add', `Note of ${agent}`, '--body', 'It is kept.'], data)
    agents.push(agent)
    const { agents: known } = await processes.run<{ agents: { agent_id: string }[] }>(
      ['agents', 'list'],
      data,
    )
    expect(known.map(({ agent_id }) => agent_id)).toEqual(expect.arrayContaining(agents))
    const { notes } = await processes.run<{ notes: { subject: string }[] }>(['notes', 'list'], data)
    expect(notes.map(({ subject }) => subject).sort()).toEqual(agents.map((name) => `Note of ${name}`))
    platform.child.kill('SIGTERM')
    expect(await platform.finished).toBe(0)
  }
})
