/** POST /v1/embeddings, in OpenAI's form. */

import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { FastifyInstance } from 'fastify'
import { type Static, Type } from 'typebox'
import { vectorDimension } from '#engines/vectors/collections.ts'
import { grouped } from '#lib/plural.ts'
import { ruleAndValue } from '#lib/schema-faults.ts'
import { shownAs } from '#runtime/http/api/facts.ts'
import { validationFailed } from '#runtime/http/validation.ts'
import type { Gateway } from '../gateway.ts'
import { closedObject } from '../schemas.ts'

const textsMax = 1_000

/** Besides `input`, what OpenAI's clients send by themselves. */
const body = closedObject(
  {
    input: Type.Unsafe<string | string[]>({
      type: ['string', 'array'],
      items: { type: 'string' },
      minItems: 1,
      maxItems: textsMax,
      description: `A text, or 1 to ${textsMax} texts.`,
      examples: ['Where is the courier deployed?'],
    }),
    model: Type.Optional(Type.String({ description: 'Accepted and ignored: there is one embedder.' })),
    encoding_format: Type.Optional(Type.Enum(['float', 'base64'], { type: 'string' })),
    dimensions: Type.Optional(Type.Integer({ description: `Only ${vectorDimension}.` })),
    user: Type.Optional(Type.String()),
  },
  { title: 'EmbeddingsRequest' },
)

const answer = Type.Object(
  {
    object: Type.Literal('list'),
    data: Type.Array(
      Type.Object({
        object: Type.Literal('embedding'),
        index: Type.Integer(),
        embedding: Type.Unsafe<number[] | string>(
          shownAs(
            Type.Union([Type.Array(Type.Number()), Type.String()], {
              description: `${vectorDimension} numbers, or base64 of their little-endian float32 bytes.`,
            }),
          ),
        ),
      }),
    ),
    model: Type.String(),
    usage: Type.Object({ prompt_tokens: Type.Integer(), total_tokens: Type.Integer() }),
  },
  { title: 'EmbeddingsAnswer', description: 'One embedding for each text, in order.' },
)

export function registerEmbeddings(scope: FastifyInstance, gateway: Gateway): void {
  const { embedder } = gateway.context.engines
  scope.withTypeProvider<TypeBoxTypeProvider>().post(
    '/embeddings',
    {
      config: { operation: 'embeddings', problems: ['embedder_unavailable'] },
      schema: {
        operationId: 'createEmbeddings',
        tags: ['platform'],
        summary: "Turn texts into vectors with the platform's embedder",
        description:
          'Points and searches take a `text` as it is; this route is for vectors that your own program keeps or compares. The built-in embedder knows English words and their meaning; another model is named in `EMBEDDINGS_URL`.',
        body,
        response: { 200: answer },
      },
    },
    async (request): Promise<Static<typeof answer>> => {
      const { input, dimensions, encoding_format } = request.body
      if (dimensions !== undefined && dimensions !== vectorDimension) {
        throw validationFailed([
          { path: '/dimensions', message: ruleAndValue(grouped(vectorDimension), dimensions) },
        ])
      }
      const texts = [input].flat()
      const embedded = await embedder.embed(texts)
      const tokens = texts.reduce((sum, text) => sum + wordsIn(text), 0)
      return {
        object: 'list',
        data: embedded.map((vector, index) => ({
          object: 'embedding',
          index,
          embedding: encoding_format === 'base64' ? base64Of(vector) : Array.from(vector),
        })),
        model: embedder.model,
        usage: { prompt_tokens: tokens, total_tokens: tokens },
      }
    },
  )
}

function wordsIn(text: string): number {
  return text.match(/\S+/g)?.length ?? 0
}

function base64Of(vector: Float32Array): string {
  return Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString('base64')
}
