/** Vitest's global set-up: a loopback endpoint through which test files get servers, started when first asked for. */

import { randomBytes } from 'node:crypto'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { createServers, type ServerName, type Servers } from '../../scripts/servers/open-servers.ts'
import { findQdrant } from '../../scripts/servers/qdrant.ts'
import { createStacks } from './stacks.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    serversUrl: string
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const servers = createServers(process.env)
  if (!servers.foreign('qdrant') && findQdrant() === null) {
    console.error(
      '\n*** The suites on a REAL QDRANT do not run: set QDRANT_URL, or put a qdrant executable on the PATH. ***\n',
    )
  }
  const databases: string[] = []
  const stacks = createStacks()
  const give = async (name: string, worker: string) => {
    if (name === 'stack') return stacks.take(worker)
    if (name === 'stack-back') return stacks.giveBack(worker)
    return name === 'database' ? newDatabase(servers, databases) : addressOf(servers, name)
  }
  const server = createServer(async (request, response) => {
    const [name = '', worker = ''] = (request.url ?? '/').slice(1).split('/')
    try {
      answer(response, 200, { address: (await give(name, worker)) ?? null })
    } catch (error) {
      console.error(`\n*** ${name} could not be started: ${String(error)}\n`)
      answer(response, 500, { error: String(error) })
    }
  })
  server.requestTimeout = 0
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  project.provide('serversUrl', `http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  return async () => {
    server.close()
    server.closeAllConnections()
    if (servers.foreign('postgres')) await dropDatabases(servers, databases)
    await Promise.all([servers.close(), stacks.close()])
  }
}

const names: readonly string[] = ['kafka', 'registry', 'postgres', 'qdrant'] satisfies ServerName[]

function addressOf(servers: Servers, name: string): Promise<string | null> {
  if (!names.includes(name)) throw new Error(`no server is called ${name}`)
  return servers.address(name as ServerName)
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

async function newDatabase(servers: Servers, databases: string[]): Promise<string> {
  const base = (await servers.address('postgres')) as string
  const name = `flotilla_test_${randomBytes(6).toString('hex')}`
  await query(base, `create database ${name}`)
  databases.push(name)
  const url = new URL(base)
  url.pathname = `/${name}`
  return url.href
}

/** On a server that was not started here nothing may be left behind. */
async function dropDatabases(servers: Servers, databases: string[]): Promise<void> {
  const base = (await servers.address('postgres')) as string
  for (const name of databases) await query(base, `drop database if exists ${name} with (force)`)
}

async function query(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 10_000 })
  await client.connect()
  try {
    await client.query(text)
  } finally {
    await client.end()
  }
}
