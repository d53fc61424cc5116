/** The parts of an OpenAPI 3.1 document that the kit writes. */

export type Schema = Record<string, unknown>

interface Media {
  schema: Schema
  example?: unknown
  examples?: Record<string, unknown>
}

export interface Answer {
  description: string
  headers?: Record<string, unknown>
  content?: Record<string, Media>
}

export interface Parameter {
  name: string
  in: 'path' | 'query' | 'header' | 'cookie'
  required?: boolean
  schema?: Schema
  example?: unknown
}

export interface Operation {
  operationId: string
  tags?: string[]
  security?: Record<string, string[]>[]
  parameters?: Parameter[]
  requestBody?: { content: Record<string, Media> }
  responses: Record<string, Answer>
  'x-codeSamples'?: { lang: string; label: string; source: string }[]
}

export interface Document {
  servers?: { url: string }[]
  paths: Record<string, Record<string, Operation>>
  components: Record<'schemas' | 'headers' | 'examples' | 'securitySchemes', Record<string, unknown>>
}

/** Every operation with its address and method. */
export function* operationsOf(document: Document): Generator<[string, string, Operation]> {
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(methods)) yield [path, method, operation]
  }
}
