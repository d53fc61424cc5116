/** The process under measurement: the main API, embedded, and on another port bare routes that verify and sign the same tokens. */

import type { AddressInfo } from 'node:net'
import Fastify from 'fastify'
import { decodeJwt, generateKeyPair, importJWK, type JWTPayload, jwtVerify, SignJWT } from 'jose'
import { pino } from 'pino'
import { startPlatform } from '#runtime/start/start.ts'
import { issueAgentKey } from '#services/access/agent-keys/agent-keys.ts'
import { provisionAgent } from '#services/access/agents/agents.ts'
import { services } from '#services/index.ts'
import { migrationFolders } from '#services/migrations.ts'

const home = process.argv[2]!
const keysWanted = Number(process.argv[3])
const keysAnAgent = 100
const needed = ['main-api', 'outbox-publisher']

const running = await startPlatform({
  migrations: migrationFolders,
  services: services.filter((service) => needed.includes(service.name)),
  chosen: [],
  env: { FLOTILLA_HOME: home, MAIN_API_PORT: '0', HOST: '127.0.0.1' },
  log: pino({ level: process.env.BENCH_LOG ?? 'error' }, pino.destination(2)),
  print: () => {},
  control: () => async () => {},
})
const baseUrl = running.addresses.base_url as string
const { relational } = running.platform.engines

/** Also when the bench was killed: nothing of a run may stay behind. */
async function stop(): Promise<void> {
  await floor?.close()
  await running.close()
  process.exit(0)
}
process.once('SIGTERM', stop)
process.once('disconnect', stop)

const keys = await issueKeys()
const { customToken, idToken } = await tokensOf(await newKey('reader'))
const floor = await createFloor(customToken, idToken)
await floor.listen({ host: '127.0.0.1', port: 0 })
const floorUrl = `http://127.0.0.1:${(floor.server.address() as AddressInfo).port}`
process.send!({ kind: 'serving', baseUrl, floorUrl, idToken, keys })

async function newKey(agentId: string): Promise<string> {
  await provisionAgent(relational, { agentId, tier: 'infra-architect' })
  return (await issueAgentKey(relational, { agentId })).key
}

async function issueKeys(): Promise<string[]> {
  const made: string[] = []
  for (let n = 0; made.length < keysWanted; n++) {
    const agentId = `agent-${n}`
    made.push(await newKey(agentId))
    for (let more = 1; more < keysAnAgent && made.length < keysWanted; more++) {
      made.push((await issueAgentKey(relational, { agentId })).key)
    }
  }
  return made
}

async function tokensOf(key: string): Promise<{ customToken: string; idToken: string }> {
  const traded = (await post('/api/v1/auth/agent', { key })) as { data: { customToken: string } }
  const { customToken } = traded.data
  const path = '/identitytoolkit.googleapis.com/v1/accounts:signInWithCustomToken'
  const { idToken } = (await post(path, { token: customToken })) as { idToken: string }
  return { customToken, idToken }
}

async function post(path: string, body: object): Promise<unknown> {
  const answer = await fetch(`${baseUrl}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
  return answer.json()
}

/** Verifies or signs and answers: no roles, limits, look-ups, ids of requests or log lines. */
async function createFloor(customToken: string, idToken: string) {
  const { keys: published } = (await (await fetch(`${baseUrl}/.well-known/jwks.json`)).json()) as {
    keys: Record<string, unknown>[]
  }
  const verifying = await importJWK(published[0]!, 'ES256')
  const { privateKey } = await generateKeyPair('ES256')
  const { iat: _, exp: __, ...payload }: JWTPayload = decodeJwt(customToken)
  const { iss } = decodeJwt(idToken)
  const me = (await (
    await fetch(`${baseUrl}/api/v1/me`, { headers: { authorization: `Bearer ${idToken}` } })
  ).json()) as object
  const app = Fastify()
  app.get('/me', async (request) => {
    const token = (request.headers.authorization ?? '').slice('Bearer '.length)
    await jwtVerify(token, verifying, { issuer: iss!, audience: 'flotilla', algorithms: ['ES256'] })
    return me
  })
  app.post('/auth', async () => {
    const iat = Math.floor(Date.now() / 1_000)
    const customToken = await new SignJWT({ ...payload, iat, exp: iat + 3_600 })
      .setProtectedHeader({ alg: 'ES256', kid: 'bare', typ: 'JWT' })
      .sign(privateKey)
    return { ok: true, data: { customToken, expiresIn: 3_600 } }
  })
  return app
}
