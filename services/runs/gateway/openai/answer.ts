/** Answers a chat completion with what the agents say: chunk by chunk, or whole. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError, describeError, errorCodes } from '#lib/errors.ts'
import { recordHeaders } from '#runtime/http/app.ts'
import { type EventStream, Json } from '#runtime/http/event-stream.ts'
import { problemOf, publicError } from '#runtime/http/problem.ts'
import { callerOf } from '#services/access/callers/caller.ts'
import { callerOfAny } from '#services/access/callers/credentials.ts'
import type { StreamPlace } from '#services/access/limits/caller-streams.ts'
import { endOperation } from '#services/access/limits/limiter.ts'
import { cancelRun } from '../../state/end.ts'
import { listRuns, parseEvent } from '../../state/read.ts'
import type { Run } from '../../state/types.ts'
import type { RunGateway } from '../gateway.ts'
import type { StartedRun } from '../routes/stream.ts'
import { failureOf } from '../views.ts'
import { openAiError } from './problems.ts'
import { questionWords } from './question.ts'
import type { ChatAsked } from './request.ts'
import { createSpeech, createUsage } from './speech.ts'
import { chunkOf, type Head, usageChunk } from './views.ts'

/** OpenAI's clients wait so long; a run may take 300 s, and wait for others before. */
export const wholeWaitMs = 600_000
/** A whole answer is kept in memory until its end. */
const contentLengthMax = 256 * 1024

export interface Chat {
  gateway: RunGateway
  request: FastifyRequest
  reply: FastifyReply
  asked: ChatAsked
  started: StartedRun
  place: StreamPlace
}

function headOf({ asked, started: { run } }: Chat): Head {
  const created = Math.floor(run.createdAt.getTime() / 1_000)
  return { id: `chatcmpl-${run.runId}`, created, model: asked.node.codename }
}

/** The run goes on when the reader leaves. */
export function streamChat(chat: Chat): FastifyReply {
  const { gateway, request, reply, asked, place } = chat
  const head = headOf(chat)
  const usage = asked.includeUsage ? null : undefined

  async function send(stream: EventStream, signal: AbortSignal): Promise<void> {
    const write = (content: string) => stream.send({ data: chunkOf(head, { content }, null, usage) })
    stream.send({ data: chunkOf(head, { role: 'assistant', content: '' }, null, usage) })
    try {
      const counts = await converse(chat, { write, signal, stream })
      if (!counts) return
      stream.send({ data: chunkOf(head, {}, 'stop', usage) })
      if (asked.includeUsage) stream.send({ data: usageChunk(head, counts) })
      stream.end({ data: new Json('[DONE]') })
    } catch (error) {
      const fault = publicError(error)
      if (fault.statusCode === 500) throw error
      stream.end({ data: openAiError(problemOf(fault, request.id)) })
    }
  }
  return gateway.streams.answer(request, reply, send, {
    heartbeat: 'ping',
    place,
    lastOf: (code) => ({
      data: openAiError(problemOf(new AppError(code, `${errorCodes[code].title}.`), request.id)),
    }),
  })
}

/** Throws the problem of a run that has not completed, and AppError `run_timeout` or `shutting_down` where it goes on. */
export async function wholeChat(chat: Chat): Promise<object> {
  const { gateway, request, reply, place, started } = chat
  const begunAt = performance.now()
  // From here on it holds its place, not a slot of the caller's concurrency.
  endOperation(request)
  let content = ''
  let isCut = false
  const write = (text: string) => {
    isCut ||= content.length + text.length > contentLengthMax
    content += text.slice(0, contentLengthMax - content.length)
  }
  const waiting = { caller: callerOf(request), reply, place, waitMs: wholeWaitMs }
  const usage = await gateway.waits.during(waiting, (signal) => converse(chat, { write, signal }))
  if (!usage) {
    // A caller whose right ended meanwhile learns nothing more.
    const { access } = await callerOfAny(gateway, request)
    if (access !== callerOf(request).access) {
      throw new AppError('unauthorized', 'The right to read this has ended.')
    }
    throw unfinished(started, performance.now() - begunAt >= wholeWaitMs)
  }
  return {
    ...headOf(chat),
    object: 'chat.completion',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: content.toWellFormed(), refusal: null },
        logprobs: null,
        finish_reason: isCut ? 'length' : 'stop',
      },
    ],
    usage,
  }
}

function unfinished({ run: { runId } }: StartedRun, isLate: boolean): AppError {
  const path = `/runs/${runId}`
  const message = isLate
    ? `The answer takes longer than ${wholeWaitMs / 60_000} minutes. The run goes on: GET ${path} shows it.`
    : `The service stops. The run goes on: GET ${path} shows it.`
  return new AppError(isLate ? 'run_timeout' : 'shutting_down', message, { members: { runId } })
}

interface Conversation {
  write(text: string): void
  signal: AbortSignal
  /** Where pieces of messages are wanted. */
  stream?: EventStream
}

/** The tokens that were used; undefined when the signal aborted first. Throws the problem of a run that has not completed. */
async function converse(chat: Chat, { write, signal, stream }: Conversation) {
  const { follow, fresh, run, after = 0 } = chat.started
  const speech = createSpeech(chat.asked.node.codename, write)
  const usage = createUsage()
  try {
    const events = follow.events({ after, fresh, untilAsked: true, signal })
    for (;;) {
      const { done, value } = await events.next()
      if (done) {
        if (value === undefined) return undefined
        if (value.asks) {
          const { agent, question } = await value.read()
          speech.end(question ? [{ author: agent, text: questionWords(question) }] : [])
          await questionShown(chat)
          return usage.counts
        }
        const failure = value.completed ? undefined : failureOf(await value.read())
        if (failure) throw failure
        speech.end(await failuresOfOthers(chat.gateway, run))
        return usage.counts
      }
      if ('readAsking' in value) continue
      if (value.seq !== null) {
        await stream?.room()
        const event = parseEvent(value.json)
        usage.add(event)
        speech.whole(event)
      } else if (stream?.hasRoom() && value.behind !== null) speech.piece(parseEvent(value.json))
      else speech.miss(value.runId)
    }
  } finally {
    follow.close()
  }
}

const failuresMax = 20

/** A line for each agent that joined and failed: its own words may be missing. */
async function failuresOfOthers({ relational }: RunGateway, { rootRunId }: Run) {
  const query = { own: null, rootRunId, status: 'failed', limit: failuresMax } as const
  const { runs } = await listRuns(relational, query)
  return runs.reverse().map(({ agent, error }) => ({
    author: agent,
    text: `(failed: ${error?.message ?? 'it says no reason'})`,
  }))
}

/** Nobody can answer a question of a session without a name. */
async function questionShown({ gateway, request, reply, asked, started }: Chat): Promise<void> {
  if (!reply.raw.headersSent) reply.header('x-run-status', 'input_required')
  if (asked.sessionId !== undefined) return
  const { rootRunId } = started.run
  try {
    await cancelRun(gateway.relational, rootRunId, recordHeaders(request))
  } catch (error) {
    // Its question expires by itself.
    gateway.log.warn({ run_id: rootRunId, reason: describeError(error) }, 'runs.question-not-canceled')
  }
}
