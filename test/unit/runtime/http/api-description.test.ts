/** What the kit makes of routes and scopes: the API description that every interface serves. */

import fastify, { type FastifyInstance } from 'fastify'
import pino from 'pino'
import { Registry } from 'prom-client'
import { type TSchema, Type } from 'typebox'
import { expect, onTestFinished, test } from 'vitest'
import { describeScope, shownAs } from '#runtime/http/api/facts.ts'
import { createHttpApp, registerApiDescription } from '#runtime/http/app.ts'

const credential = { name: 'token', description: 'A token.', bearerFormat: 't_<x>', variable: 'TOKEN' }
const colour = Type.Enum(['red', 'blue'], { type: 'string', title: 'Colour', examples: ['blue'] })
const thing = (extra: Record<string, TSchema> = {}) =>
  Type.Object(
    { name: Type.String({ examples: ["it's"] }), colour: Type.Optional(colour), ...extra },
    { title: 'Thing' },
  )

async function openApp(): Promise<FastifyInstance> {
  const app = createHttpApp({ name: 'test', log: pino({ level: 'silent' }), metrics: new Registry() })
  onTestFinished(() => app.close())
  await registerApiDescription(app, {
    prefix: '/v1',
    title: 'Test',
    description: 'D',
    version: '1',
    tags: [{ name: 'things', description: 'Things' }],
  })
  return app
}

function addThings(app: FastifyInstance): void {
  const answer = { 201: Type.Object({ made: thing() }, { title: 'Made' }) }
  void app.register(async (scope) => {
    describeScope(scope, {
      credential,
      problems: ['unauthorized', 'rate_limited'],
      headers: { RateLimit: 'Left.' },
    })
    scope.post(
      '/v1/things/:place',
      {
        config: { problems: ['agent_exists', { code: 'operation_failed', status: 502 }] },
        schema: {
          operationId: 'makeThing',
          summary: 'Make',
          tags: ['things'],
          params: Type.Object({ place: Type.String() }),
          body: thing(),
          response: answer,
        },
      },
      (_request, reply) => reply.send({}),
    )
  })
}

async function described(app: FastifyInstance, host = 'api.test:8080') {
  return (await app.inject({ url: '/v1/openapi.json', headers: { host } })).json()
}

test('titled schemas are components, with their enums', async () => {
  const app = await openApp()
  addThings(app)
  const { components, paths } = await described(app)
  const post = paths['/v1/things/{place}'].post
  expect(post.requestBody.content['application/json'].schema).toEqual({ $ref: '#/components/schemas/Thing' })
  expect(components.schemas.Made.properties.made).toEqual({ $ref: '#/components/schemas/Thing' })
  expect(components.schemas.Thing.properties.colour).toEqual({ $ref: '#/components/schemas/Colour' })
  expect(components.schemas.Colour).toMatchObject({ type: 'string', enum: ['red', 'blue'] })
})

test('an operation names its credential, and the problems of its scope, its route and the kit, each with headers', async () => {
  const app = await openApp()
  addThings(app)
  const { components, paths } = await described(app)
  const { security, responses, operationId } = paths['/v1/things/{place}'].post
  expect([operationId, security]).toEqual(['makeThing', [{ token: [] }]])
  expect(components.securitySchemes.token).toMatchObject({
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 't_<x>',
  })
  const codes = Object.fromEntries(
    Object.entries(responses as Record<string, { content: Record<string, { examples?: object }> }>).map(
      ([status, one]) => [status, Object.keys(one.content['application/problem+json']?.examples ?? {})],
    ),
  )
  expect(codes).toEqual({
    201: [],
    400: ['invalid_json', 'bad_request'],
    401: ['unauthorized'],
    408: ['bad_request_408'],
    409: ['agent_exists'],
    413: ['payload_too_large'],
    415: ['unsupported_media_type'],
    422: ['validation_failed'],
    429: ['rate_limited'],
    431: ['bad_request_431'],
    500: ['internal_error'],
    502: ['operation_failed_502'],
    503: ['overloaded', 'shutting_down'],
  })
  expect(Object.keys(responses[429].headers)).toEqual([
    'X-Request-Id',
    'traceparent',
    'RateLimit',
    'Retry-After',
  ])
  expect(Object.keys(responses[401].headers)).toEqual(['X-Request-Id', 'traceparent', 'WWW-Authenticate'])
  expect(components.examples.operation_failed_502.value).toMatchObject({
    status: 502,
    code: 'operation_failed',
  })
  expect(components.schemas.ErrorCode.enum).toContain('agent_exists')
  expect(components.schemas.ErrorCode.enum).not.toContain('query_timeout')
})

test('the address is the one asked at, and one that a shell would run is replaced', async () => {
  const app = await openApp()
  addThings(app)
  const { servers, paths } = await described(app)
  expect(servers).toEqual([{ url: 'http://api.test:8080' }])
  expect(paths['/v1/things/{place}'].post['x-codeSamples'][0].source).toBe(
    `# Set PLACE first.
curl -sS "http://api.test:8080/v1/things/$PLACE" \\
  -H "Authorization: Bearer $TOKEN" \\
  -H 'Content-Type: application/json' \\
  -d '{
  "name": "it'\\''s",
  "colour": "blue"
}'`,
  )
  for (const host of ['$(id)', '`id`', 'a"b', 'a b']) {
    expect((await described(app, host)).servers[0].url).toMatch(/^http:\/\/127\.0\.0\.1/)
  }
})

test('a schema may be described in another way than it checks', async () => {
  const app = await openApp()
  const vague = Type.Object({ colour: Type.String(shownAs(colour)) }, { title: 'Vague' })
  app.post(
    '/v1/vague',
    {
      config: { problems: [] },
      schema: { operationId: 'vague', summary: 'S', tags: ['things'], body: vague, response: { 200: vague } },
    },
    (request, reply) => reply.send(request.body),
  )
  const answer = await app.inject({ method: 'POST', url: '/v1/vague', payload: { colour: 'green' } })
  expect([answer.statusCode, answer.json()]).toEqual([200, { colour: 'green' }])
  const { components } = await described(app)
  expect(components.schemas.Vague.properties.colour).toEqual({ $ref: '#/components/schemas/Colour' })
})

test('a route without what its description needs stops the start, and the fault names all of it', async () => {
  const app = await openApp()
  app.get('/v1/bare', (_request, reply) => reply.send({}))
  addThings(app)
  app.get(
    '/v1/half',
    {
      config: { problems: [{ code: 'not_found', status: 418 }] },
      schema: { operationId: 'makeThing', summary: 'S', tags: ['other'], response: { 200: Type.Object({}) } },
    },
    (_request, reply) => reply.send({}),
  )
  const fault = await Promise.resolve(app.ready()).then(String, (error: Error) => error.message)
  expect(fault).toContain(
    'GET /v1/bare needs an operationId in camelCase, a summary, known tags, config.problems, the error codes that it ' +
      'answers by itself, a successful answer',
  )
  expect(fault).toContain(
    'GET /v1/half needs an operationId of its own, known tags, statuses of the catalogue instead of not_found with 418, ' +
      'a title for each answer',
  )
})

test('one title for two different schemas is a fault', async () => {
  const app = await openApp()
  addThings(app)
  app.get(
    '/v1/other',
    {
      config: { problems: [] },
      schema: {
        operationId: 'other',
        summary: 'S',
        tags: ['things'],
        response: { 200: thing({ size: Type.Integer() }) },
      },
    },
    (_request, reply) => reply.send({}),
  )
  await app.ready()
  expect(() => app.swagger()).toThrow('two different schemas have the title Thing')
})

test('without a description the facts of scopes do no harm', async () => {
  const app = fastify()
  onTestFinished(() => app.close())
  describeScope(app, { problems: ['forbidden'] })
  app.get('/', (_request, reply) => reply.send('x'))
  expect((await app.inject('/')).body).toBe('x')
})

test('the reference page shows the described request and nothing of its maker’s cloud', async () => {
  const app = await openApp()
  addThings(app)
  const page = (await app.inject('/v1/reference/')).body
  const configuration = JSON.parse(/createApiReference\('#app', (\{.*?\})\)/s.exec(page)?.[1] ?? '{}')
  expect(configuration).toMatchObject({
    url: '../openapi.json',
    hiddenClients: true,
    hideClientButton: true,
    showDeveloperTools: 'never',
    agent: { disabled: true },
    mcp: { disabled: true },
    telemetry: false,
    withDefaultFonts: false,
  })
  expect(page).not.toMatch(/https?:\/\/(?!www\.w3\.org)/)
})
