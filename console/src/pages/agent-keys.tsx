/** Agent keys: issued, listed and revoked. */

import { useState } from 'react'
import { Link } from 'wouter'
import { useParam } from '../data/address.ts'
import { api, type Data, take } from '../data/api.ts'
import { linkTo } from '../data/links.ts'
import { useChange, useRead } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Confirm } from '../ui/confirm.tsx'
import { FilterSelect } from '../ui/form.tsx'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page } from '../ui/page.tsx'
import { type Secret, SecretDialog } from '../ui/secret.tsx'
import { Status } from '../ui/status.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { Ago, Time } from '../ui/time.tsx'
import { IssueKeyDialog } from './agent-dialogs.tsx'

type AgentKey = Data['AgentKey']

const stateOf = ({ revoked_at }: AgentKey) => (revoked_at === null ? 'live' : 'revoked')

function columnsFor(onRevoke: ((key: AgentKey) => void) | null): Column<AgentKey>[] {
  const columns: Column<AgentKey>[] = [
    { name: 'Key', cell: ({ id }) => <code className="wrap">{id}</code>, by: ({ id }) => id },
    {
      name: 'Agent',
      cell: ({ agent_id }) => <Link href={linkTo('/agents', agent_id)}>{agent_id}</Link>,
      by: ({ agent_id }) => agent_id,
    },
    { name: 'Label', cell: ({ label }) => label || '–', by: ({ label }) => label, wide: true },
    {
      name: 'State',
      cell: (key) => <Status tone={key.revoked_at === null ? 'ok' : 'idle'}>{stateOf(key)}</Status>,
      by: stateOf,
      wide: true,
    },
    {
      name: 'Last used',
      cell: ({ last_used_at }) => <Ago at={last_used_at} />,
      by: (key) => key.last_used_at,
      wide: true,
    },
    {
      name: 'Issued',
      cell: ({ created_at }) => <Time at={created_at} />,
      by: (key) => key.created_at,
      wide: true,
    },
  ]
  if (!onRevoke) return columns
  const cell = (key: AgentKey) =>
    key.revoked_at === null && (
      <button type="button" className="quiet" onClick={() => onRevoke(key)}>
        Revoke<span className="hidden"> {key.id}</span>
      </button>
    )
  return [...columns, { name: 'Action', cell }]
}

/** The keys of one agent, or of all. */
export function AgentKeyTable({ agentId }: { agentId?: string }) {
  const query = agentId === undefined ? {} : { agent_id: agentId }
  const keys = useRead(
    ['agent-keys', agentId ?? ''],
    () => take(api.GET('/api/v1/agent-keys', { params: { query } })),
    15_000,
  )
  const mayRevoke = useMay('DELETE /api/v1/agent-keys/:id')
  const [revoking, setRevoking] = useState<AgentKey | null>(null)
  const [state, setState] = useParam('state')
  const revoke = useChange(
    (id: string) => take(api.DELETE('/api/v1/agent-keys/{id}', { params: { path: { id } } })),
    ['agent-keys'],
  )
  return (
    <>
      <Loaded of={keys}>
        {({ agent_keys }) => (
          <Table<AgentKey>
            label="Agent keys"
            columns={columnsFor(mayRevoke ? setRevoking : null)}
            rows={agent_keys.filter((key) => state === '' || stateOf(key) === state)}
            keyOf={({ id }) => id}
            empty={<Empty title="No agent keys" />}
            {...(agentId === undefined
              ? {
                  textOf: ({ id, agent_id, label }: AgentKey) => `${id} ${agent_id} ${label}`,
                  filters: (
                    <FilterSelect
                      label="State"
                      value={state}
                      options={['live', 'revoked']}
                      onChange={setState}
                    />
                  ),
                }
              : {})}
          />
        )}
      </Loaded>
      {revoking && (
        <Confirm
          title="Revoke an agent key"
          action="Revoke"
          busy={revoke.isPending}
          problem={revoke.error}
          onClose={() => setRevoking(null)}
          onConfirm={() => revoke.mutate(revoking.id, { onSuccess: () => setRevoking(null) })}
        >
          <p>
            The key <code>{revoking.id}</code> of {revoking.agent_id}
            {revoking.label && ` (${revoking.label})`} and the tokens bought with it stop working at once.
          </p>
        </Confirm>
      )}
    </>
  )
}

export default function AgentKeys() {
  const mayIssue = useMay('POST /api/v1/agent-keys')
  const [isIssuing, setIssuing] = useState(false)
  const [secret, setSecret] = useState<Secret | null>(null)
  const issue = mayIssue && (
    <button type="button" className="primary" onClick={() => setIssuing(true)}>
      Issue a key
    </button>
  )
  return (
    <Page title="Agent keys" lead="Agents trade them for tokens of the main API." actions={issue}>
      <AgentKeyTable />
      {isIssuing && (
        <IssueKeyDialog
          onClose={() => setIssuing(false)}
          onIssued={(made) => {
            setIssuing(false)
            setSecret(made)
          }}
        />
      )}
      {secret && <SecretDialog secret={secret} onClose={() => setSecret(null)} />}
    </Page>
  )
}
