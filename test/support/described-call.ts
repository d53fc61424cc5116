/** A call of an operation that an API description names. */

export interface DescribedCall {
  service: string
  url: string
  operationId: string
  tag: string
  method: string
  /** The template of the description. */
  path: string
  parameters: Partial<Record<'path' | 'query' | 'header', Record<string, unknown>>>
  body?: unknown
  token: string | null
  status: number
  /** Code of the expected problem; undefined for a success. */
  code?: string
  /** The title of its faults' schema. */
  faultType: 'Problem' | 'OpenAiError'
  /** Its good answer goes on without an end. */
  streams?: boolean
}
