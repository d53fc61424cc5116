/** A receiver of OTLP over HTTP: keeps the spans that arrive, read from their protobuf. */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { openTracing } from '#runtime/observe/tracing/open-tracing.ts'
import type { Tracing } from '#runtime/observe/tracing/tracing.ts'
import { eventually } from './eventually.ts'
import { fieldsOf, type ProtobufField, textOf } from './protobuf.ts'

export interface ReceivedSpan {
  traceId: string
  spanId: string
  /** Empty of a root. */
  parentSpanId: string
  name: string
  /** 1 internal, 2 server, 3 client, 4 producer, 5 consumer. */
  kind: number
  attributes: Record<string, string | number | boolean>
  /** Span ids. */
  links: string[]
  isError: boolean
  /** Attributes of the process. */
  resource: Record<string, string | number | boolean>
}

export interface OtlpReceiver {
  /** For OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly url: string
  readonly spans: ReceivedSpan[]
  /** Headers of the requests. */
  readonly requests: Record<string, unknown>[]
  /** How requests are treated: taken, refused with 503, or never answered. */
  mode: 'take' | 'refuse' | 'hang'
  /** Tracing that sends its spans here. */
  openTracing(): Promise<Tracing>
  /** Waits for a span that fits. */
  spanOf(what: string, fits: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan>
  /** Waits for a span that fits and for all above it, up to one of the name `root`; the outermost comes first. */
  chainTo(what: string, root: string, fits: (span: ReceivedSpan) => boolean): Promise<ReceivedSpan[]>
  close(): Promise<void>
}

export async function openOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = []
  const requests: Record<string, unknown>[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    requests.push({ url: request.url, ...request.headers })
    if (receiver.mode === 'hang') return
    if (receiver.mode === 'take') spans.push(...spansOf(Buffer.concat(chunks)))
    response.writeHead(receiver.mode === 'take' ? 200 : 503).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const receiver: OtlpReceiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    requests,
    mode: 'take',
    openTracing: () =>
      openTracing({
        env: { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url },
        serviceName: 'test',
        instanceId: 'one',
        log: pino({ level: 'silent' }),
        metrics: new Registry(),
      }),
    spanOf: (what, fits) => eventually(what, async () => spans.find(fits)),
    chainTo: (what, root, fits) =>
      eventually(what, async () => {
        const chains = spans.filter(fits).map((span) => chainOf(spans, span))
        return chains.find(([first]) => first?.name === root)
      }),
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      server.closeAllConnections()
      await closed
    },
  }
  return receiver
}

/** The span and those above it. */
function chainOf(spans: readonly ReceivedSpan[], span: ReceivedSpan): ReceivedSpan[] {
  const parent = spans.find(({ traceId, spanId }) => traceId === span.traceId && spanId === span.parentSpanId)
  return parent ? [...chainOf(spans, parent), span] : [span]
}

/** The ids of a W3C trace context; empty texts when the header is not valid. */
export function traceparentOf(header: string | null | undefined): { traceId: string; spanId: string } {
  const [, traceId = '', spanId = ''] =
    /^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$/.exec(header ?? '') ?? []
  return { traceId, spanId }
}

/** The numbers are those of opentelemetry-proto: trace/v1/trace.proto and common/v1/common.proto. */
function spansOf(body: Buffer): ReceivedSpan[] {
  return messages(fieldsOf(body), 1).flatMap((ofResource) => {
    const resource = attributesOf(messages(ofResource, 1)[0] ?? [], 1)
    const scopes = messages(ofResource, 2)
    return scopes.flatMap((scope) => messages(scope, 2).map((span) => spanOf(span, resource)))
  })
}

function spanOf(fields: ProtobufField[], resource: ReceivedSpan['resource']): ReceivedSpan {
  const hex = (of: ProtobufField[], number: number) => bytes(of, number).toString('hex')
  return {
    traceId: hex(fields, 1),
    spanId: hex(fields, 2),
    parentSpanId: hex(fields, 4),
    name: textOf(fields, 5),
    kind: Number(fields.find(({ number }) => number === 6)?.value ?? 0),
    attributes: attributesOf(fields, 9),
    links: messages(fields, 13).map((link) => hex(link, 2)),
    isError: messages(fields, 15).some((status) =>
      status.some(({ number, value }) => number === 3 && value === 2n),
    ),
    resource,
  }
}

function attributesOf(fields: ProtobufField[], number: number): ReceivedSpan['attributes'] {
  return Object.fromEntries(
    messages(fields, number).map((pair) => {
      const [value] = messages(pair, 2)[0] ?? []
      return [textOf(pair, 1), value ? anyValueOf(value) : '']
    }),
  )
}

/** AnyValue: text 1, boolean 2, integer 3, double 4. */
function anyValueOf({ number, value }: ProtobufField): string | number | boolean {
  if (typeof value === 'bigint') return number === 2 ? value === 1n : Number(value)
  return number === 4 ? value.readDoubleLE() : value.toString('utf8')
}

function messages(fields: ProtobufField[], number: number): ProtobufField[][] {
  return fields.filter((field) => field.number === number).map(({ value }) => fieldsOf(value as Buffer))
}

function bytes(fields: ProtobufField[], number: number): Buffer {
  return (fields.find((field) => field.number === number)?.value ?? Buffer.alloc(0)) as Buffer
}
