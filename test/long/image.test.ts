/**
 * The image, without a container engine: each step of the Dockerfile runs in a root file system of its own, and what it makes is
 * started as docker-compose.yml has it: as user 1000 without capabilities, on a read-only root, with a volume at /data.
 */

import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { freePort, removeAtEnd, runCommand } from '../../scripts/servers/children.ts'
import { eventually } from '../support/eventually.ts'
import { type Container, canRunContainers, startContainer } from '../support/image/container.ts'
import { buildImage, type Image, seenByBuild } from '../support/image/dockerfile.ts'
import { projectFolder } from '../support/pages.ts'
import { temporaryFolder } from '../support/temporary.ts'

const patient = { timeout: 1_800_000 }
const timeoutMs = 60_000
const packageFolder = '/app/node_modules/flotilla'

if (!canRunContainers)
  console.error('\n*** THE IMAGE IS NOT CHECKED: its steps need mounts, which take Linux and root. ***\n')

describe.skipIf(!canRunContainers)('the image', () => {
  let folder: string
  let image: Image

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'flotilla-image-'))
    removeAtEnd(folder)
    const context = join(folder, 'context')
    await copyClone(context)
    image = await buildImage({ file: join(projectFolder, 'Dockerfile'), context, folder })
  }, patient.timeout)

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  const inImage = (path: string) => join(image.root, path)

  test('has the package as it was installed: no sources, source maps or types, and no package of development', () => {
    const left = globSync('app/**/*.{map,ts,tsx,cts,mts}', { cwd: image.root })
    // Other packages deliver sources in place of types; the docs have examples.
    expect(
      left.filter((path) => /\.map$|\.d\.[cm]?ts$|\/flotilla\/(?!node_modules|docs)/.test(path)),
    ).toEqual([])
    for (const name of ['typescript', 'vitest', 'rolldown', 'vite'])
      expect(existsSync(inImage(`app/node_modules/${name}`)), name).toBe(false)
    expect(existsSync(inImage('clone'))).toBe(false)
  })

  test('has the drivers of servers in the versions that the package names, and not the pinned Node', async () => {
    const { peerDependencies } = JSON.parse(
      readFileSync(inImage(`${packageFolder}/package.json`), 'utf8'),
    ) as { peerDependencies: Record<string, string> }
    const drivers = Object.keys(peerDependencies).filter((name) => !name.startsWith('node-'))
    expect(drivers).toContain('@platformatic/kafka')
    expect(globSync('app/node_modules/node-*-*', { cwd: image.root })).toEqual([])
    const { dependencies } = JSON.parse(readFileSync(inImage('app/package.json'), 'utf8')) as {
      dependencies: Record<string, string>
    }
    expect(Object.keys(dependencies).sort()).toEqual([...drivers, 'flotilla'].sort())
    // Every one fits: npm reports what does not.
    await runCommand('npm', ['ls', '--prefix', inImage('app'), ...drivers], { timeoutMs })
  })

  test('is built of a tarball alone where one is given', patient, async () => {
    const other = temporaryFolder()
    const contexts = { tarball: join(folder, 'tarball') }
    const empty = temporaryFolder()
    const same = await buildImage({
      file: join(projectFolder, 'Dockerfile'),
      context: empty,
      contexts,
      folder: other,
    })
    const compiled = (root: string) => globSync(`.${packageFolder}/**/*`, { cwd: root }).sort()
    expect(compiled(same.root)).toEqual(compiled(image.root))
    expect(existsSync(join(other, 'clone'))).toBe(false)
  })

  test(
    'serves as user 1000 on a read-only root, says how it is, passes the tour, and keeps its data',
    patient,
    async () => {
      const volume = newVolume()
      const logFile = join(temporaryFolder(), 'log')
      const env = { ...image.env, ...(await freePorts()) }
      const run = (args: readonly string[]) =>
        startContainer(
          image.root,
          { ...image, env, args },
          { readOnly: true, volumes: { '/data': volume }, logFile },
        )
      const start = async () => {
        const container = await run([...image.entrypoint, ...image.command])
        onTestFinished(() => container.kill('SIGKILL'))
        return container
      }
      // A process that serves nothing.
      const idle = await run(['node', '--eval', 'setInterval(() => {}, 1_000)'])
      onTestFinished(() => idle.kill('SIGKILL'))
      await expect(idle.exec(image.healthCheck)).rejects.toThrow('ECONNREFUSED')

      const first = await start()
      await untilHealthy(first)
      expect(await first.exec(['id', '--user'])).toBe('1000\n')
      expect(await first.exec(['grep', 'CapEff', '/proc/1/status'])).toMatch(/\t0+\n/)
      for (const path of ['/app/new', `${packageFolder}/new`, '/var/cache/flotilla/new', '/new'])
        await expect(first.exec(['touch', path]), path).rejects.toThrow(/Read-only file system/)
      expect(await first.exec(['flotilla', 'tour'])).toBeTruthy()
      await first.exec(['flotilla', 'agents', 'provision', 'keeper'])
      expect(existsSync(join(volume, 'secret-key'))).toBe(true)
      expect(existsSync(join(volume, 'agents/keeper/ed25519.pem'))).toBe(true)
      // The backup of docs/operations.md, which leaves the container by its output.
      const backup = 'flotilla backup /tmp/b.zst >&2 && cat /tmp/b.zst && rm /tmp/b.zst'
      expect(readFileSync(join(projectFolder, 'docs/operations.md'), 'utf8')).toContain(`sh -c '${backup}'`)
      expect(Number(await first.exec(['sh', '-c', `(${backup}) | wc -c`]))).toBeGreaterThan(100_000)
      expect(await first.stop()).toBe('ended with 0')
      await expect(idle.exec(image.healthCheck)).rejects.toThrow('ECONNREFUSED')

      const second = await start()
      await untilHealthy(second)
      expect(await second.exec(['flotilla', 'agents', 'list'])).toContain('keeper')
      expect(await second.stop()).toBe('ended with 0')
    },
  )

  test('finds its compiled code in the cache that its build made', () => {
    const [cache] = globSync(`.${image.env.NODE_COMPILE_CACHE}/*`, { cwd: image.root })
    // Node keeps one for each of its versions and users.
    expect(cache).toMatch(/-1000$/)
    expect(globSync('*', { cwd: inImage(cache!) }).length).toBeGreaterThan(1_000)
  })

  test('starts a service on servers', patient, async () => {
    const logFile = join(temporaryFolder(), 'log')
    const away = `127.0.0.1:${await freePort()}`
    const named = {
      KAFKA_BROKERS: away,
      SCHEMA_REGISTRY_URL: `http://${away}`,
      QDRANT_URL: `http://${away}`,
      DATABASE_URL: `postgres://fleet:fleet@${away}/fleet`,
      FIREBASE_PROJECT_ID: 'fleet',
    }
    const env = { ...image.env, ...(await freePorts()), ...named }
    const args = [...image.entrypoint, 'start', 'hub']
    const hub = await startContainer(
      image.root,
      { ...image, env, args },
      { readOnly: true, volumes: { '/data': newVolume() }, logFile },
    )
    onTestFinished(() => hub.kill('SIGKILL'))
    // A driver whose package is missing would have stopped the start before that.
    await eventually('it waits for Postgres', () => hub.output().includes('"msg":"start.waiting"'))
    expect(hub.running()).toBe(true)
  })

  async function untilHealthy(container: Container): Promise<void> {
    await eventually(
      'it is healthy',
      async () => {
        if (!container.running()) throw new Error(container.output())
        await container.exec(image.healthCheck)
        return true
      },
      300_000,
    )
  }

  /** As an engine makes one when it is first mounted: with what the image has there, and its owner. */
  function newVolume(): string {
    const volume = join(temporaryFolder(), 'data')
    expect(image.volumes).toEqual(['/data'])
    execFileSync('cp', ['--archive', inImage('data'), volume])
    return volume
  }
})

/** The tracked files and those that will be, as far as a build gets to see them. */
async function copyClone(target: string): Promise<void> {
  const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard']
  const listed = (await runCommand('git', args, { cwd: projectFolder, timeoutMs }))
    .split('\0')
    .filter(Boolean)
  const files = listed.filter((file) => existsSync(join(projectFolder, file)))
  for (const file of await seenByBuild(projectFolder, files)) {
    cpSync(join(projectFolder, file), join(target, file), { recursive: true, verbatimSymlinks: true })
  }
  expect(existsSync(join(target, dirname('test/long')))).toBe(false)
}

/** Ports are those of the machine, where others may run. */
async function freePorts(): Promise<Record<string, string>> {
  const [gateway, api, runs, hub, relay] = await Promise.all([1, 2, 3, 4, 5].map(freePort))
  return {
    VECTOR_GATEWAY_PORT: `${gateway}`,
    MAIN_API_PORT: `${api}`,
    RUN_GATEWAY_PORT: `${runs}`,
    HUB_PORT: `${hub}`,
    WEBHOOK_GATEWAY: `127.0.0.1:${relay}`,
  }
}
