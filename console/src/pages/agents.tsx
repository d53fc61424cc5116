/** The agents: who may use the platform. */

import { useState } from 'react'
import { Link } from 'wouter'
import { useParam } from '../data/address.ts'
import { api, type Data, take } from '../data/api.ts'
import { count } from '../data/format.ts'
import { linkTo } from '../data/links.ts'
import { useRead } from '../data/query.ts'
import { useMay } from '../session/permissions.ts'
import { Copyable } from '../ui/copyable.tsx'
import { FilterSelect } from '../ui/form.tsx'
import { Empty, Loaded } from '../ui/loaded.tsx'
import { Page } from '../ui/page.tsx'
import { type Secret, SecretDialog } from '../ui/secret.tsx'
import { type Column, Table } from '../ui/table.tsx'
import { accesses, ProvisionDialog, tiers } from './agent-dialogs.tsx'

type Agent = Data['Agent']

const columns: readonly Column<Agent>[] = [
  {
    name: 'Agent',
    cell: ({ agent_id }) => <Link href={linkTo('/agents', agent_id)}>{agent_id}</Link>,
    by: ({ agent_id }) => agent_id,
  },
  { name: 'Access', cell: ({ access }) => access, by: ({ access }) => access },
  { name: 'Role', cell: ({ role }) => role || '–', by: ({ role }) => role, wide: true },
  { name: 'Tier', cell: ({ tier }) => tier, by: ({ tier }) => tier, wide: true },
  {
    name: 'Quota a day',
    cell: ({ quota }) => (quota === null ? 'of its tier' : count(quota)),
    by: ({ quota }) => quota,
    numeric: true,
    wide: true,
  },
  {
    name: 'Fingerprint',
    cell: ({ public_key_fingerprint: text }) => <Copyable text={text} shown={19} />,
    wide: true,
  },
]

export default function Agents() {
  const agents = useRead(['agents'], () => take(api.GET('/api/v1/agents')), 15_000)
  const mayProvision = useMay('POST /api/v1/agents')
  const [access, setAccess] = useParam('access')
  const [tier, setTier] = useParam('tier')
  const [isProvisioning, setProvisioning] = useState(false)
  const [secret, setSecret] = useState<Secret | null>(null)
  const provision = mayProvision && (
    <button type="button" className="primary" onClick={() => setProvisioning(true)}>
      Provision an agent
    </button>
  )
  return (
    <Page title="Agents" actions={provision}>
      <Loaded of={agents}>
        {({ agents }) =>
          agents.length === 0 ? (
            <Empty title="No agents yet">
              <p>
                Provision the first one here, or with{' '}
                <code>npx flotilla agents provision --agent-id scout</code>.
              </p>
            </Empty>
          ) : (
            <Table<Agent>
              label="Agents"
              columns={columns}
              rows={agents.filter(
                (one) => (access === '' || one.access === access) && (tier === '' || one.tier === tier),
              )}
              keyOf={({ agent_id }) => agent_id}
              textOf={({ agent_id, name, role, uid }) => `${agent_id} ${name} ${role} ${uid}`}
              filters={
                <>
                  <FilterSelect label="Access" value={access} options={accesses} onChange={setAccess} />
                  <FilterSelect label="Tier" value={tier} options={tiers} onChange={setTier} />
                </>
              }
              empty={<Empty title="No agent is like that" />}
            />
          )
        }
      </Loaded>
      {isProvisioning && (
        <ProvisionDialog
          onClose={() => setProvisioning(false)}
          onMade={(made) => {
            setProvisioning(false)
            setSecret(made)
          }}
        />
      )}
      {secret && <SecretDialog secret={secret} onClose={() => setSecret(null)} />}
    </Page>
  )
}
