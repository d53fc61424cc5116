/** What runs ask of people, and their answers: a text, or the approval of what an agent wants to do. */

import { type ReactNode, useState } from 'react'
import {
  answerParts,
  confirmation,
  confirmationPart,
  confirmedIn,
} from '../../../packages/client/src/answer-parts.ts'
import { api, type Data, take } from '../data/api.ts'
import { count } from '../data/format.ts'
import { useChange } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Facts } from '../ui/facts.tsx'
import { Form, TextField } from '../ui/form.tsx'
import { Failed } from '../ui/loaded.tsx'
import { Prose } from '../ui/markdown.tsx'
import { Section } from '../ui/page.tsx'
import { Ago, Time } from '../ui/time.tsx'
import type { Run } from './runs.tsx'

type Question = Data['Question']
type Parts = ReturnType<typeof answerParts>

/** Says what became of the last answer also when nothing waits any more. */
export function Questions({ runs }: { runs: readonly Run[] }) {
  const mayAnswer = useMay('POST /api/v1/runs/:runId/input')
  const answer = useChange(
    ({ runId, parts }: { runId: string; parts: Parts }) =>
      take(
        api.POST('/api/v1/runs/{runId}/input', {
          params: { path: { runId }, header: { 'idempotency-key': crypto.randomUUID() } },
          body: { parts },
        }),
      ),
    ['runs'],
    ['dispatches'],
    ['state'],
  )
  return (
    <>
      {runs.map((run) => {
        const { runId, attempt, question } = run
        if (!question) return null
        return (
          <Section key={`${runId}.${attempt}`} title={`${run.appName} asks`}>
            <Asked
              question={question}
              busy={answer.isPending}
              onAnswer={mayAnswer ? (parts) => answer.mutate({ runId, parts }) : null}
            />
          </Section>
        )
      })}
      {answer.error && <Failed problem={answer.error} />}
      <p className="dim" role="status">
        {answer.isSuccess && 'The answer was sent.'}
      </p>
    </>
  )
}

interface AskedProps {
  question: Question
  busy: boolean
  /** null: the caller may not answer. */
  onAnswer: ((parts: Parts) => void) | null
}

function Asked({ question, busy, onAnswer }: AskedProps) {
  const { text, calls, askedAt, expiresAt } = question
  const [decided, setDecided] = useState<ReadonlyMap<string, boolean>>(new Map())
  const asked = calls.filter(({ name }) => name === confirmation)
  const left = asked.filter(({ id }) => !decided.has(id)).length
  /** All go in one message: the agent then goes on once. */
  function decide(id: string, confirmed: boolean) {
    const now = new Map(decided).set(id, confirmed)
    setDecided(now)
    if (asked.every((one) => now.has(one.id)))
      onAnswer?.(asked.map((one) => confirmationPart(one.id, now.get(one.id)!)))
  }
  return (
    <>
      {text !== '' && <Prose>{text}</Prose>}
      <Facts
        of={[
          ['Asked', <Ago key="asked" at={askedAt} />],
          ['Expires', <Time key="expires" at={expiresAt} />],
        ]}
      />
      {calls.map((call) => {
        if (call.name !== confirmation) return <ShownCall key={call.id} name={call.name} args={call.args} />
        const { hint, name, args } = confirmedIn(call.args)
        return (
          <ShownCall key={call.id} name={name} args={args}>
            {hint !== '' && hint !== text && <p className="prose">{hint}</p>}
            {onAnswer && (
              <Decision
                decided={decided.get(call.id)}
                busy={busy}
                onDecide={(confirmed) => decide(call.id, confirmed)}
              />
            )}
          </ShownCall>
        )
      })}
      {decided.size > 0 && left > 0 && (
        <p className="dim" role="status">{`${count(left)} more to decide: then the answer is sent.`}</p>
      )}
      {onAnswer && (
        <Form
          submit="Answer"
          busy={busy}
          problem={null}
          onSubmit={({ text: typed = '' }) => onAnswer(answerParts(question, typed))}
        >
          <TextField
            label="Answer"
            name="text"
            rows={3}
            required
            hint={
              asked.length === 0
                ? 'The agent gets it as text.'
                : 'Or decide in words: approve, yes, refuse or no alone. All else the agent gets as text.'
            }
          />
        </Form>
      )}
    </>
  )
}

interface DecisionProps {
  decided: boolean | undefined
  busy: boolean
  onDecide: (confirmed: boolean) => void
}

function Decision({ decided, busy, onDecide }: DecisionProps) {
  return (
    <div className="buttons">
      <button
        type="button"
        className="primary"
        aria-pressed={decided === true}
        disabled={busy}
        onClick={() => onDecide(true)}
      >
        Approve
      </button>
      <button
        type="button"
        className="danger"
        aria-pressed={decided === false}
        disabled={busy}
        onClick={() => onDecide(false)}
      >
        Refuse
      </button>
      {decided !== undefined && <span className="dim">{decided ? 'Approved' : 'Refused'}</span>}
    </div>
  )
}

/** A call that an agent made, or wants to make. */
function ShownCall({ name, args, children }: { name: string; args: unknown; children?: ReactNode }) {
  return (
    <fieldset>
      <legend>
        <code>{name || 'a call without a name'}</code>
      </legend>
      <Args args={args} />
      {children}
    </fieldset>
  )
}

function Args({ args }: { args: unknown }) {
  if (args === undefined) return <p className="dim">Its arguments are too long: its event below has them.</p>
  if (typeof args !== 'object' || args === null || Array.isArray(args)) return <Value of={args} />
  const given = Object.entries(args)
  if (given.length === 0) return <p className="dim">without arguments</p>
  return <Facts of={given.map(([name, value]) => [name, <Value key={name} of={value} />])} />
}

function Value({ of: value }: { of: unknown }) {
  if (typeof value === 'string') return <span className="prose">{value}</span>
  return <code className="prose">{JSON.stringify(value, null, 2)}</code>
}
