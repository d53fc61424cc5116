/** `flotilla doctor` where nothing runs: what it shows, and that it fails for whatever would stop the start. */

import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it, onTestFinished } from 'vitest'
import { logPath, openForWriting } from '#engines/event-log/embedded/log-file.ts'
import { clusterMajor } from '#engines/relational/pglite-cluster.ts'
import { openPointsFile, pointsPath } from '#engines/vectors/embedded/points-file.ts'
import { openDataDirectory } from '#lib/data-directory.ts'
import { diskCheck, isPlatformAt } from '#operations/doctor/environment.ts'
import type { Check } from '#operations/doctor/ping.ts'
import { writeAddresses } from '#runtime/start/addresses.ts'
import { anyPorts } from '../../../support/any-ports.ts'
import { runCommand as run } from '../../../support/command-line.ts'
import { openFakeQdrant } from '../../../support/qdrant-fake.ts'
import { temporaryFolder } from '../../../support/temporary.ts'

describe('flotilla doctor', () => {
  it('names each engine that does not answer, and what to do, without waiting for it', async () => {
    const env = {
      FLOTILLA_HOME: join(temporaryFolder(), 'never-made'),
      DATABASE_URL: 'postgres://someone:s3cret@127.0.0.1:9/none',
      QDRANT_URL: 'http://127.0.0.1:9',
      VECTOR_GATEWAY_PORT: '0',
      MAIN_API_PORT: '0',
      HUB_PORT: '0',
      RUN_GATEWAY_PORT: '0',
      WEBHOOK_GATEWAY: 'localhost:0',
    }
    const { code, printed } = await run(['doctor', '--json'], env)
    expect(code).toBe(1)
    const { ok, checks } = JSON.parse(printed) as { ok: boolean; checks: { check: string; status: string }[] }
    expect(ok).toBe(false)
    const failed = checks.filter((check) => check.status === 'fail')
    expect(failed.map((check) => check.check)).toEqual([
      'vector engine',
      'relational engine',
      'relational mirror',
    ])
    expect(printed).not.toContain('s3cret')
    expect(existsSync(env.FLOTILLA_HOME)).toBe(false)
  })
})

describe('flotilla doctor where nothing runs', () => {
  const checksOf = async (env: Record<string, string>) => {
    const { code, stdout } = await run(['doctor', '--json'], env)
    return { code, checks: (JSON.parse(stdout) as { checks: Check[] }).checks }
  }
  const faultsOf = async (env: Record<string, string>) => {
    const ports = {
      WEBHOOK_GATEWAY: 'localhost:0',
      VECTOR_GATEWAY_PORT: '0',
      MAIN_API_PORT: '0',
      HUB_PORT: '0',
      RUN_GATEWAY_PORT: '0',
    }
    const { code, checks } = await checksOf({ ...ports, ...env })
    const faults = checks.filter(({ status }) => status === 'fail')
    expect(code).toBe(faults.length > 0 ? 1 : 0)
    return faults
  }

  it('shows ports, lifetimes and targets, warns of variables nearly ours, and makes nothing', async () => {
    const folder = temporaryFolder()
    const file = join(folder, 'targets.yaml')
    writeFileSync(file, 'targets:\n  audit:\n    url: https://audit.example/s3cret\n')
    const nodes = join(folder, 'nodes.yaml')
    writeFileSync(nodes, 'nodes:\n  whale:\n    url: https://whale.example/s3cret\n')
    const home = join(folder, 'never-made')
    const { code, checks } = await checksOf({
      FLOTILLA_HOME: home,
      WEBHOOK_TARGETS_FILE: file,
      RUN_NODES_FILE: nodes,
      VECTOR_GATEWAY_PORT: '0',
      MAIN_API_PORT: '0',
      HUB_PORT: '0',
      RUN_GATEWAY_PORT: '0',
      WEBHOOK_GATEWAY: 'localhost:0',
      GATEWAY_KEY_TTL_S: '777',
      KAFKA_BROKER: 'log:9092',
    })
    expect(code).toBe(0)
    expect(existsSync(home)).toBe(false)
    const text = checks.map(({ check, status, found }) => `${status} ${check}: ${found}`).join('\n')
    expect(text).toContain('ok settings of vector-gateway: GATEWAY_KEY_TTL_S 777')
    expect(text).toContain('ok port of WEBHOOK_GATEWAY: ')
    expect(text).toContain('ok webhook targets: audit (audit.example)')
    expect(text).toContain('ok nodes of agents: WHALE (whale.example)')
    expect(text).toContain('warn environment: KAFKA_BROKER')
    expect(text).not.toContain('s3cret')
  })

  it('fails for what would stop the start: values, the targets file, a secret, the folder, a port', async () => {
    const folder = temporaryFolder()
    const file = join(folder, 'file')
    writeFileSync(file, 'targets: 7\n')
    const wrong = await checksOf({ FLOTILLA_HOME: file, WEBHOOK_TARGETS_FILE: file, LOG_LEVEL: 'loud' })
    expect([wrong.code, wrong.checks.at(-1)]).toEqual([
      1,
      expect.objectContaining({ check: 'configuration', status: 'fail' }),
    ])
    for (const part of ['LOG_LEVEL', 'FLOTILLA_HOME', 'targets must be a map']) {
      expect(wrong.checks.at(-1)!.found).toContain(part)
    }
    const home = join(folder, 'never-made')
    writeFileSync(file, `targets:\n  a:\n    url: https://a.example\n    signing_secret: \${NOT_SET}\n`)
    const secret = await checksOf({ FLOTILLA_HOME: home, WEBHOOK_TARGETS_FILE: file })
    const configurationOf = ({ checks }: { checks: Check[] }) =>
      checks.find(({ check }) => check === 'configuration')?.found
    expect([secret.code, configurationOf(secret)]).toEqual([1, expect.stringContaining('NOT_SET')])
    // It goes on with what else there is.
    expect(secret.checks.map(({ check }) => check)).toEqual(
      expect.arrayContaining(['nodes of agents', 'platform', 'port of HUB_PORT']),
    )
    writeFileSync(file, `nodes:\n  whale:\n    url: \${NOT_SET_EITHER}\n`)
    const node = await checksOf({ FLOTILLA_HOME: home, RUN_NODES_FILE: file })
    expect([node.code, configurationOf(node)]).toEqual([1, expect.stringContaining('NOT_SET_EITHER')])
    const port = await listen(createServer())
    expect(await faultsOf({ FLOTILLA_HOME: home, VECTOR_GATEWAY_PORT: String(port) })).toMatchObject([
      {
        check: 'port of VECTOR_GATEWAY_PORT',
        found: expect.stringContaining(`${port} (another server has it)`),
      },
    ])
    const elsewhere = { HOST: '192.0.2.1', VECTOR_GATEWAY_PORT: '18080' }
    expect(await faultsOf({ FLOTILLA_HOME: home, ...elsewhere })).toMatchObject([
      { found: expect.stringMatching(/does not have that address.*VECTOR_GATEWAY_PORT or HOST/) },
    ])
    expect(existsSync(home)).toBe(false)
  })

  it('names what other servers answer: a refused key or password, no such database, something else', async () => {
    const refusing = await listen(statusServer(401))
    const other = await listen(statusServer(404))
    const [password, database] = [await listen(postgresFault('28P01')), await listen(postgresFault('3D000'))]
    const home = join(temporaryFolder(), 'never-made')
    const adviceOf = async (env: Record<string, string>) =>
      (await faultsOf({ FLOTILLA_HOME: home, ...env })).map(({ check, advice }) => `${check}: ${advice}`)
    expect(
      await adviceOf({
        QDRANT_URL: `http://127.0.0.1:${refusing}`,
        SCHEMA_REGISTRY_URL: `http://127.0.0.1:${refusing}`,
        EMBEDDINGS_URL: `http://127.0.0.1:${refusing}/v1`,
        DATABASE_URL: `postgres://a:b@127.0.0.1:${password}/x`,
      }),
    ).toEqual([
      'schema registry: Correct the user and the password in SCHEMA_REGISTRY_URL.',
      'vector engine: Correct QDRANT_API_KEY.',
      'relational engine: Correct the user and the password in DATABASE_URL.',
      'relational mirror: Correct the user and the password in DATABASE_URL.',
      'embedder: Correct EMBEDDINGS_URL and what belongs to it.',
    ])
    const fake = await openFakeQdrant()
    onTestFinished(() => fake.close())
    expect(await adviceOf({ QDRANT_URL: fake.url, QDRANT_GRPC_URL: 'http://127.0.0.1:9' })).toEqual([
      expect.stringContaining('vector engine: Start it, or correct QDRANT_GRPC_URL;'),
    ])
    expect(
      await adviceOf({
        SCHEMA_REGISTRY_URL: `http://127.0.0.1:${other}`,
        DATABASE_URL: `postgres://a:b@127.0.0.1:${database}/x`,
      }),
    ).toEqual([
      'schema registry: Correct SCHEMA_REGISTRY_URL: perhaps another server has this address.',
      'relational engine: Create the database that DATABASE_URL names, or correct its name.',
      'relational mirror: Create the database that DATABASE_URL names, or correct its name.',
    ])
  })

  it('names files that this version cannot open, and changes nothing', async () => {
    const home = temporaryFolder()
    for (const folder of ['log', 'vectors', 'postgres/global'])
      mkdirSync(join(home, folder), { recursive: true })
    openForWriting(logPath(join(home, 'log'))).close()
    const points = openPointsFile(join(home, 'vectors'), ['posts'], 1536, () => {})
    await points.close()
    writeFileSync(join(home, 'postgres/PG_VERSION'), `${clusterMajor}\n`)
    writeFileSync(join(home, 'postgres/global/pg_control'), '')
    const before = contentsOf(home)
    expect(await faultsOf({ FLOTILLA_HOME: home })).toEqual([])
    expect(contentsOf(home)).toEqual(before)

    changeLayout(logPath(join(home, 'log')))
    writeFileSync(pointsPath(join(home, 'vectors')), 'damaged')
    writeFileSync(join(home, 'postgres/PG_VERSION'), '16\n')
    expect(await faultsOf({ FLOTILLA_HOME: home })).toMatchObject([
      { check: 'files of eventLog', found: expect.stringContaining('Start the newer version') },
      { check: 'files of vectors', found: expect.stringContaining('points.db is damaged') },
      { check: 'files of relational', found: expect.stringContaining('one of Postgres 16') },
    ])
  })

  it('fails while a process without an interface has the data directory, and makes nothing in an empty one', async () => {
    const home = temporaryFolder()
    expect(await faultsOf({ FLOTILLA_HOME: home })).toEqual([])
    expect(readdirSync(home)).toEqual([])
    const owned = await openDataDirectory(home)
    expect(await faultsOf({ FLOTILLA_HOME: home })).toMatchObject([
      { check: 'platform', found: expect.stringContaining(`process ${process.pid} has the data directory`) },
    ])
    await owned.close()
    expect(await faultsOf({ FLOTILLA_HOME: home })).toEqual([])
  })

  it('fails where a platform was killed, and begins with a sentence about all', async () => {
    const home = temporaryFolder()
    const env = { FLOTILLA_HOME: home, ...anyPorts }
    const well = await run(['doctor'], env)
    expect(well.stdout).toMatch(/^All is well: \d+ checks\.\n$/)
    expect((await run(['doctor', '--all'], env)).stdout).toContain('port of HUB_PORT')
    const { pid } = spawnSync(process.execPath, ['--version'])
    writeAddresses(home, { hub_url: 'http://127.0.0.1:1' })
    const file = join(home, 'run/addresses.json')
    writeFileSync(file, readFileSync(file, 'utf8').replace(String(process.pid), String(pid)))
    const { code, stdout } = await run(['doctor'], env)
    expect(code).toBe(1)
    expect(stdout).toMatch(/^1 of \d+ checks? found something\.\n\n/)
    expect(stdout).toContain('was killed')
    expect(stdout).not.toContain('port of')
  })

  it('tells a process of the platform from another server by its metrics, and from none', async () => {
    const serving = (text: string) => createHttpServer((_, response) => response.end(text))
    const ours = await listen(serving('flotilla_data_directory_free_bytes 7\n'))
    const other = await listen(serving('hello'))
    const silent = createServer((socket) => socket.destroy())
    const answers = [ours, other, await listen(silent)].map((port) => isPlatformAt('127.0.0.1', port))
    expect(await Promise.all(answers)).toEqual([true, false, false])
  })

  it('fails where the disk is full, also before there is a data directory', () => {
    const statusOf = (mebibytes: number) => diskCheck('/data', mebibytes * 1024 ** 2).status
    expect([1, 500, 5_000].map(statusOf)).toEqual(['fail', 'warn', 'ok'])
  })
})

/** The port that it gets; closed when the test ends. */
async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

function statusServer(status: number): Server {
  return createHttpServer((_, response) => response.writeHead(status).end('{}'))
}

/** A Postgres that refuses every start-up message with this SQLSTATE. */
function postgresFault(code: string): Server {
  return createServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', () => {
      const fields = Buffer.from(`SFATAL\0C${code}\0Mno\0\0`)
      const head = Buffer.from([0x45, 0, 0, 0, fields.length + 4])
      socket.end(Buffer.concat([head, fields]))
    })
  })
}

/** Every path below a folder with its size, mode and time. */
function contentsOf(folder: string): string[] {
  const paths = readdirSync(folder, { recursive: true }).map(String).sort()
  return ['', ...paths].map((path) => {
    const { size, mode, mtimeMs } = statSync(join(folder, path))
    return [path, size, mode, mtimeMs].join(' ')
  })
}

/** As if a newer version had written the file. */
function changeLayout(file: string): void {
  const db = new DatabaseSync(file)
  db.exec(`update meta set value = '9' where name = 'layout'`)
  db.close()
}
