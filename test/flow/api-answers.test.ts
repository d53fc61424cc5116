/** Every operation of every interface answers what its description says: checked with the described schemas. */

import { Ajv2020 } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Operation, operationsOf } from '#runtime/http/api/document.ts'
import type { DescribedCall } from '../support/described-call.ts'
import { type DescribedPlatform, describedCalls, openDescribedPlatform } from '../support/described-calls.ts'
import { withCookieAlone } from '../support/described-people.ts'
import { eventually } from '../support/eventually.ts'

let world: DescribedPlatform
let calls: DescribedCall[]
beforeAll(async () => {
  world = await openDescribedPlatform()
  calls = await describedCalls(world)
}, 120_000)
afterAll(() => world?.close())

function send(call: DescribedCall): Promise<Response> {
  const { path = {}, query = {} } = call.parameters
  const filled = Object.entries(path).reduce(
    (text, [name, value]) => text.replace(`{${name}}`, encodeURIComponent(String(value))),
    call.path,
  )
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    [value].flat().map((one): [string, string] => [name, String(one)]),
  )
  return fetch(`${call.url}${filled}?${new URLSearchParams(pairs)}`, {
    method: call.method.toUpperCase(),
    headers: {
      ...(call.token === null ? {} : { authorization: `Bearer ${call.token}` }),
      ...(call.body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
  })
}

/** The body; only the beginning of a stream, which is then cut. */
async function textOf(answer: Response): Promise<string> {
  if (!answer.headers.get('content-type')?.startsWith('text/event-stream')) return answer.text()
  const reader = answer.body!.getReader()
  const { value } = await reader.read()
  await reader.cancel()
  return Buffer.from(value!).toString()
}

test('every operation is called, and has an id of its own over all interfaces', () => {
  const ids = world.interfaces.flatMap(({ document }) =>
    [...operationsOf(document)].map(([, , operation]) => operation.operationId),
  )
  expect(new Set(ids).size).toBe(ids.length)
  expect(new Set(calls.filter(({ code }) => !code).map(({ operationId }) => operationId))).toEqual(
    new Set(ids.filter((id) => !withCookieAlone.includes(id))),
  )
})

test('every answer fits its schema, and its headers are described', { timeout: 120_000 }, async () => {
  const checks = new Map(
    world.interfaces.map(({ name, document }) => {
      const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true })
      return [name, { document, ajv: ajv.addSchema(document, 'api') }]
    }),
  )
  const faults: string[] = []
  for (const call of calls) {
    const { document, ajv } = checks.get(call.service)!
    const answer = await eventually('the accepted record is there', async () => {
      const one = await send(call)
      return one.status === 404 && call.status === 200 ? null : one
    })
    const text = await textOf(answer)
    const shown = `${call.operationId} ${answer.status} ${text.slice(0, 200)}`
    const operation = document.paths[call.path]?.[call.method] as Operation
    const described = operation.responses[answer.status]
    const type = answer.headers.get('content-type')?.split(';')[0] ?? ''
    const schema = described?.content?.[type]?.schema
    if (answer.status !== call.status) faults.push(`another status than ${call.status}: ${shown}`)
    if (call.code && codeIn(text) !== call.code) faults.push(`another code than ${call.code}: ${shown}`)
    if (!schema) faults.push(`not described: ${shown}`)
    else {
      const check = ajv.compile({ $ref: `api${String(schema.$ref)}` })
      if (!check(type === 'text/event-stream' ? text : JSON.parse(text)))
        faults.push(`${ajv.errorsText(check.errors)}: ${shown}`)
    }
    for (const header of Object.keys(described?.headers ?? {})) {
      if (!answer.headers.has(header)) faults.push(`no ${header}: ${shown}`)
    }
  }
  expect(faults).toEqual([])
})

/** The code of a problem document, or of a fault in OpenAI's form. */
function codeIn(text: string): string | undefined {
  const { code, error } = JSON.parse(text) as { code?: string; error?: { code?: string } }
  return code ?? error?.code
}

test('the description says where it was asked, without and with a proxy’s name', async () => {
  for (const { url, prefix } of world.interfaces) {
    const port = new URL(url).port
    for (const asked of [url, `http://localhost:${port}`]) {
      const { servers } = (await (await fetch(`${asked}${prefix}/openapi.json`)).json()) as {
        servers: { url: string }[]
      }
      expect(servers).toEqual([{ url: asked }])
    }
  }
})
