/** The documents of the local issuer by which OpenID Connect clients find it and check its tokens. */

import type { FastifyInstance } from 'fastify'
import { Type } from 'typebox'
import type { LocalIssuer } from '#engines/identity/port.ts'

/** A new key is published at once, and verifiers ask for keys that they do not know. */
const cacheControl = 'public, max-age=300'

const discovery = Type.Object(
  {
    issuer: Type.String(),
    jwks_uri: Type.String(),
    token_endpoint: Type.String({ description: 'Trades refresh tokens.' }),
    response_types_supported: Type.Array(Type.String()),
    subject_types_supported: Type.Array(Type.String()),
    id_token_signing_alg_values_supported: Type.Array(Type.String()),
  },
  { title: 'IssuerDiscovery', description: 'OpenID Connect discovery document.' },
)

const jwks = Type.Object(
  {
    keys: Type.Array(Type.Object({}, { additionalProperties: true, description: 'A public key, RFC 7517.' })),
  },
  { title: 'JsonWebKeys', description: 'The public keys of all tokens that may be valid.' },
)

export function registerWellKnown(scope: FastifyInstance, identity: LocalIssuer): void {
  scope.get(
    '/.well-known/openid-configuration',
    {
      config: { problems: [] },
      schema: {
        operationId: 'discoverIssuer',
        tags: ['identity provider'],
        summary: 'Where the local issuer is and what it signs with',
        response: { 200: discovery },
      },
    },
    (_request, reply) => {
      const issuer = identity.issuer()
      return reply.header('cache-control', cacheControl).send({
        issuer,
        jwks_uri: `${issuer}/.well-known/jwks.json`,
        token_endpoint: `${issuer}/securetoken.googleapis.com/v1/token`,
        response_types_supported: ['id_token'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['ES256'],
      })
    },
  )
  scope.get(
    '/.well-known/jwks.json',
    {
      config: { problems: [] },
      schema: {
        operationId: 'getIssuerKeys',
        tags: ['identity provider'],
        summary: 'The public keys of the local issuer',
        response: { 200: jwks },
      },
    },
    (_request, reply) => reply.header('cache-control', cacheControl).send(identity.jwks()),
  )
}
