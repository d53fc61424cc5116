/** The goals of the fleet, and their states. */

import { useMemo, useState } from 'react'
import { Link } from 'wouter'
import { useParam } from '../data/address.ts'
import { api, type Data, take, takePage, takeRows } from '../data/api.ts'
import { linkTo } from '../data/links.ts'
import { useChange, useRead } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Form, SelectField, TextField, type Values } from '../ui/form.tsx'
import { Empty, Failed, Loaded } from '../ui/loaded.tsx'
import { Page } from '../ui/page.tsx'
import { Status, type Tone } from '../ui/status.tsx'
import { Ago } from '../ui/time.tsx'
import { HubList, type Priority, priorities } from './hub-list.tsx'

type Goal = Data['Goal']
const statuses = ['pending', 'active', 'completed', 'failed', 'canceled'] as const

const tones: Record<Goal['status'], Tone> = {
  pending: 'idle',
  active: 'busy',
  completed: 'ok',
  failed: 'bad',
  canceled: 'idle',
}

const nextOf: Record<Goal['status'], readonly { status: Goal['status']; label: string }[]> = {
  pending: [
    { status: 'active', label: 'Begin' },
    { status: 'canceled', label: 'Cancel' },
  ],
  active: [
    { status: 'completed', label: 'Complete' },
    { status: 'failed', label: 'Fail' },
    { status: 'canceled', label: 'Cancel' },
  ],
  completed: [],
  failed: [],
  canceled: [],
}

export default function Goals() {
  const [only, setOnly] = useParam('goal')
  const dispatched = useDispatched()
  const mayMake = useMay('POST /api/v1/goals')
  const [isMaking, setMaking] = useState(false)
  const make = mayMake && (
    <button type="button" className="primary" onClick={() => setMaking(true)}>
      Set a goal
    </button>
  )
  return (
    <Page title="Goals" actions={make}>
      {only === '' ? (
        <HubList<Goal>
          label="Goals, the newest first"
          name="goals"
          statuses={statuses}
          load={(query) => takePage(api.GET('/api/v1/goals', { params: { query: query as object } }))}
          row={(goal) => <GoalEntry goal={goal} isDispatch={dispatched.has(goal.id)} />}
          empty={
            <Empty title="No goals yet">
              <p>People and agents set them; a collective dispatch makes one, too.</p>
            </Empty>
          }
        />
      ) : (
        <OneGoal id={only} dispatched={dispatched} onAll={() => setOnly('')} />
      )}
      {isMaking && <GoalDialog onClose={() => setMaking(false)} />}
    </Page>
  )
}

const dispatchesRead = 1_000

/** The goals that are dispatches: their state follows their runs. */
function useDispatched(): ReadonlySet<number> {
  const mayList = useMay('GET /api/v1/dispatches')
  const query = { limit: dispatchesRead }
  const listDispatches = (asked: { limit: number; cursor?: string }) =>
    takePage(api.GET('/api/v1/dispatches', { params: { query: asked } }))
  const { data } = useRead(['dispatches', 'of goals', mayList], async () =>
    mayList ? takeRows(dispatchesRead, (from) => listDispatches({ ...query, ...from })) : [],
  )
  return useMemo(() => new Set(data?.map(({ goalId }) => goalId)), [data])
}

function OneGoal({
  id,
  dispatched,
  onAll,
}: {
  id: string
  dispatched: ReadonlySet<number>
  onAll: () => void
}) {
  const goal = useRead(['goals', 'one', id], () =>
    take(api.GET('/api/v1/goals/{id}', { params: { path: { id } } })),
  )
  return (
    <>
      <div className="filters">
        <span>Only goal {id}</span>
        <button type="button" onClick={onAll}>
          Show all
        </button>
      </div>
      <Loaded of={goal}>
        {(data) => (
          <ul className="records" aria-label="Goals">
            <li>
              <GoalEntry goal={data} isDispatch={dispatched.has(data.id)} />
            </li>
          </ul>
        )}
      </Loaded>
    </>
  )
}

function GoalEntry({ goal, isDispatch }: { goal: Goal; isDispatch: boolean }) {
  const { id, title, description, status, priority, author, created_at } = goal
  const mayChange = useMay('PATCH /api/v1/goals/:id')
  const change = useChange(
    (next: Goal['status']) =>
      take(
        api.PATCH('/api/v1/goals/{id}', {
          params: { path: { id: String(id) } },
          body: { status: next },
        }),
      ),
    ['goals'],
    ['state'],
  )
  return (
    <>
      <div className="line">
        <strong className="wrap">{title}</strong>
        <Status tone={tones[status]}>{status}</Status>
        {priority !== 'normal' && <span>{priority}</span>}
        <span className="dim wrap">
          {author}, <Ago at={created_at} />
        </span>
        {isDispatch && <Link href={linkTo('/dispatches', id)}>its dispatch</Link>}
        {mayChange &&
          !isDispatch &&
          nextOf[status].map(({ status: next, label }) => (
            <button
              key={next}
              type="button"
              className="quiet"
              disabled={change.isPending}
              onClick={() => change.mutate(next)}
            >
              {label}
              <span className="hidden"> {title}</span>
            </button>
          ))}
      </div>
      {description && <p className="prose">{description}</p>}
      {change.error && <Failed problem={change.error} />}
    </>
  )
}

function GoalDialog({ onClose }: { onClose: () => void }) {
  const make = useChange(
    ({ title = '', description, priority }: Values) =>
      take(
        api.POST('/api/v1/goals', {
          params: { header: { 'idempotency-key': crypto.randomUUID() } },
          body: {
            title,
            priority: priority as Priority,
            ...(description === undefined ? {} : { description }),
          },
        }),
      ),
    ['goals'],
    ['state'],
  )
  return (
    <Dialog title="Set a goal" onClose={onClose}>
      <Form
        submit="Set it"
        busy={make.isPending}
        problem={make.error}
        onCancel={onClose}
        onSubmit={(values) => make.mutate(values, { onSuccess: onClose })}
      >
        <TextField label="Title" name="title" required autoFocus problem={make.error} />
        <TextField label="Description" name="description" rows={5} problem={make.error} />
        <SelectField label="Priority" name="priority" options={priorities} initial="normal" />
      </Form>
    </Dialog>
  )
}
