/** One agent: its permissions, use and keys, and the actions on it. */

import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import { usePathId } from '../data/address.ts'
import { api, type Data, take } from '../data/api.ts'
import { count } from '../data/format.ts'
import { linkTo } from '../data/links.ts'
import { useChange, useRead } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Confirm } from '../ui/confirm.tsx'
import { Copyable } from '../ui/copyable.tsx'
import { Facts } from '../ui/facts.tsx'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page, Section } from '../ui/page.tsx'
import { type Secret, SecretDialog } from '../ui/secret.tsx'
import { Status } from '../ui/status.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { ChangeAgentDialog, IssueKeyDialog, RotateDialog } from './agent-dialogs.tsx'
import { AgentKeyTable } from './agent-keys.tsx'

type Shown = Data['ShownAgent']
type Operation = NonNullable<Shown['operations']>[number]
type Open = 'change' | 'rotate' | 'delete' | 'issue'

const columns: readonly Column<Operation>[] = [
  { name: 'At', cell: ({ occurred_at }) => <Time at={occurred_at} />, by: ({ occurred_at }) => occurred_at },
  { name: 'Operation', cell: ({ operation }) => operation, by: ({ operation }) => operation },
  {
    name: 'Outcome',
    cell: ({ outcome, status_code }) => (
      <Status tone={outcome === 'ok' || (status_code ?? 500) < 400 ? 'ok' : 'bad'}>
        {`${outcome}${status_code === null ? '' : ` ${status_code}`}`}
      </Status>
    ),
    by: ({ status_code }) => status_code,
  },
  {
    name: 'Collection',
    cell: ({ collection }) => collection ?? '–',
    by: ({ collection }) => collection,
    wide: true,
  },
  {
    name: 'Took',
    cell: ({ took_ms }) => (took_ms === null ? '–' : `${count(took_ms)} ms`),
    by: ({ took_ms }) => took_ms,
    numeric: true,
    wide: true,
  },
  { name: 'Request', cell: ({ request_id }) => <Copyable text={request_id} shown={13} />, wide: true },
]

export default function AgentPage() {
  const agentId = usePathId()
  const params = { path: { agent_id: agentId } }
  const agent = useRead(
    ['agents', agentId],
    () => take(api.GET('/api/v1/agents/{agent_id}', { params })),
    10_000,
  )
  const mayList = useMay('GET /api/v1/agent-keys')
  const [open, setOpen] = useState<Open | null>(null)
  return (
    <Page title={agentId} actions={<Actions onOpen={setOpen} />}>
      <Loaded of={agent}>
        {(data) => (
          <>
            <About agent={data} />
            {data.operations && (
              <Section title="Last operations">
                <Table<Operation>
                  label="Last operations"
                  columns={columns}
                  rows={data.operations}
                  keyOf={({ request_id, operation, occurred_at }) =>
                    `${request_id} ${operation} ${occurred_at}`
                  }
                  empty={<Empty title="It has done nothing yet" />}
                />
              </Section>
            )}
            <Dialogs open={open} agent={data} onOpen={setOpen} />
          </>
        )}
      </Loaded>
      {mayList && (
        <Section title="Agent keys">
          <AgentKeyTable agentId={agentId} />
        </Section>
      )}
    </Page>
  )
}

function Actions({ onOpen }: { onOpen: (open: Open) => void }) {
  const all: { open: Open; label: string; may: boolean }[] = [
    { open: 'issue', label: 'Issue a key', may: useMay('POST /api/v1/agent-keys') },
    { open: 'change', label: 'Change', may: useMay('PATCH /api/v1/agents/:agent_id') },
    { open: 'rotate', label: 'Rotate', may: useMay('POST /api/v1/agents/:agent_id/rotate') },
    { open: 'delete', label: 'Delete', may: useMay('DELETE /api/v1/agents/:agent_id') },
  ]
  return all
    .filter(({ may }) => may)
    .map(({ open, label }) => (
      <button key={open} type="button" onClick={() => onOpen(open)}>
        {label}
      </button>
    ))
}

function Dialogs({
  open,
  agent,
  onOpen,
}: {
  open: Open | null
  agent: Shown
  onOpen: (open: Open | null) => void
}) {
  const [secret, setSecret] = useState<Secret | null>(null)
  const close = () => onOpen(null)
  const show = (made: Secret | null) => {
    close()
    setSecret(made)
  }
  return (
    <>
      {open === 'change' && <ChangeAgentDialog agent={agent} onClose={close} />}
      {open === 'rotate' && <RotateDialog agentId={agent.agent_id} onClose={close} onRotated={show} />}
      {open === 'issue' && <IssueKeyDialog agentId={agent.agent_id} onClose={close} onIssued={show} />}
      {open === 'delete' && <DeleteDialog agentId={agent.agent_id} onClose={close} />}
      {secret && <SecretDialog secret={secret} onClose={() => setSecret(null)} />}
    </>
  )
}

function DeleteDialog({ agentId, onClose }: { agentId: string; onClose: () => void }) {
  const [, navigate] = useLocation()
  const remove = useChange(async () => {
    await take(api.DELETE('/api/v1/agents/{agent_id}', { params: { path: { agent_id: agentId } } }))
    navigate('/agents')
  }, ['agents'])
  return (
    <Confirm
      title={`Delete ${agentId}`}
      action="Delete the agent"
      typed={agentId}
      busy={remove.isPending}
      problem={remove.error}
      onConfirm={() => remove.mutate(undefined)}
      onClose={onClose}
    >
      <p>Its keys and tokens end at once, and the agent cannot come back under its old uid.</p>
    </Confirm>
  )
}

function About({ agent }: { agent: Shown }) {
  const { day, burst, concurrent } = agent.limits
  const limit = (value: number | null) => (value === null ? 'unlimited' : count(value))
  return (
    <Facts
      of={[
        ['Name', agent.name],
        ['Role', agent.role || '–'],
        ['Access', agent.access],
        ['Tier', agent.tier],
        ['Used today', <Usage key="day" used={day.used} limit={day.limit} />],
        ['Burst a second', limit(burst.limit)],
        ['At once', limit(concurrent.limit)],
        ['Fingerprint', <Copyable key="fingerprint" text={agent.public_key_fingerprint} />],
        ['uid', <Copyable key="uid" text={agent.uid} />],
        ['Made', <Time key="made" at={agent.created_at} />],
        ...(agent.sessions ? [['Gateway keys', count(agent.sessions.length)] as const] : []),
        [
          'Records',
          <Link key="records" href={linkTo('/topics', 'agents.changes', { from: -100, key: agent.uid })}>
            its changes in the log
          </Link>,
        ],
      ]}
    />
  )
}

function Usage({ used, limit }: { used: number; limit: number | null }) {
  if (limit === null) return <>{count(used)}, unlimited</>
  const share = Math.min(100, limit === 0 ? 100 : (100 * used) / limit)
  return (
    <>
      <span className="bar" aria-hidden="true">
        <span style={{ width: `${share}%` }} />
      </span>
      {count(used)} of {count(limit)}
    </>
  )
}
