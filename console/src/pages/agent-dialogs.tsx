/** Dialogs that make and change agents. */

import { api, type Data, take } from '../data/api.ts'
import { useChange } from '../data/query.ts'
import { Dialog } from '../ui/dialog.tsx'
import { CheckField, Form, SelectField, TextField, type Values } from '../ui/form.tsx'
import type { Secret } from '../ui/secret.tsx'

export const accesses = ['viewer', 'member', 'admin'] as const
export const tiers = ['agent', 'research-agent', 'infra-architect'] as const

type Access = Data['Role']
type Tier = Data['Tier']

/** A key that is in no volume is shown once. */
function secretOf({ agent_id, private_key }: Data['AgentWithKey']): Secret | null {
  if (private_key === undefined) return null
  return {
    title: `The private key of ${agent_id}`,
    text: 'The agent proves with it who it is.',
    value: private_key,
    file: `${agent_id}-ed25519.pem`,
  }
}

/** An empty field gives the figure back to the tier. */
function figure(text: string | undefined): number | null {
  return text === undefined ? null : Number(text)
}

export function ProvisionDialog({
  onClose,
  onMade,
}: {
  onClose: () => void
  onMade: (secret: Secret | null) => void
}) {
  const provision = useChange(
    (values: Values) => {
      const { agent_id = '', name, role, access, tier, volume, quota, burst, concurrent, force } = values
      return take(
        api.POST('/api/v1/agents', {
          body: {
            agent_id,
            access: access as Access,
            tier: tier as Tier,
            ...(name === undefined ? {} : { name }),
            ...(role === undefined ? {} : { role }),
            ...(quota === undefined ? {} : { quota: Number(quota) }),
            ...(burst === undefined ? {} : { burst: Number(burst) }),
            ...(concurrent === undefined ? {} : { concurrent: Number(concurrent) }),
            ...(volume === undefined ? {} : { volume }),
            ...(force === undefined ? {} : { force: true }),
          },
        }),
      )
    },
    ['agents'],
    ['state'],
  )
  const { error } = provision
  return (
    <Dialog title="Provision an agent" onClose={onClose}>
      <Form
        submit="Provision"
        busy={provision.isPending}
        problem={error}
        onCancel={onClose}
        onSubmit={(values) => provision.mutate(values, { onSuccess: (made) => onMade(secretOf(made)) })}
      >
        <TextField
          label="Agent id"
          name="agent_id"
          required
          autoFocus
          pattern="[A-Za-z0-9][A-Za-z0-9._\-]{0,63}"
          hint="Letters, digits, dots, underscores and hyphens; at most 64."
          problem={error}
        />
        <div className="pair">
          <TextField label="Name" name="name" problem={error} />
          <TextField label="Role" name="role" problem={error} />
          <SelectField label="Access" name="access" options={accesses} initial="member" problem={error} />
          <SelectField label="Tier" name="tier" options={tiers} initial="agent" problem={error} />
        </div>
        <Figures problem={error} />
        <TextField
          label="Volume for the private key"
          name="volume"
          hint="Empty: the key is shown here once. A name: it is written to that volume of the agents."
          problem={error}
        />
        <CheckField label="Replace a key that the volume holds already" name="force" />
      </Form>
    </Dialog>
  )
}

function Figures({
  agent,
  problem,
}: {
  agent?: Data['ShownAgent']
  problem: ReturnType<typeof useChange>['error']
}) {
  const fields = [
    { label: 'Quota a day', name: 'quota', min: 0, value: agent?.quota },
    { label: 'Burst a second', name: 'burst', min: 1, value: agent?.burst },
    { label: 'At once', name: 'concurrent', min: 1, value: agent?.concurrent },
  ]
  return (
    <fieldset>
      <legend>Limits; an empty one is that of the tier</legend>
      <div className="pair">
        {fields.map(({ value, ...field }) => (
          <TextField
            key={field.name}
            type="number"
            problem={problem}
            {...field}
            {...(value == null ? {} : { initial: String(value) })}
          />
        ))}
      </div>
    </fieldset>
  )
}

export function ChangeAgentDialog({ agent, onClose }: { agent: Data['ShownAgent']; onClose: () => void }) {
  const change = useChange(
    ({ name, role, access, tier, quota, burst, concurrent }: Values) =>
      take(
        api.PATCH('/api/v1/agents/{agent_id}', {
          params: { path: { agent_id: agent.agent_id } },
          body: {
            ...(name === undefined ? {} : { name }),
            role: role ?? '',
            access: access as Access,
            tier: tier as Tier,
            quota: figure(quota),
            burst: figure(burst),
            concurrent: figure(concurrent),
          },
        }),
      ),
    ['agents'],
  )
  const { error } = change
  return (
    <Dialog title={`Change ${agent.agent_id}`} onClose={onClose}>
      <Form
        submit="Change"
        busy={change.isPending}
        problem={error}
        onCancel={onClose}
        onSubmit={(values) => change.mutate(values, { onSuccess: onClose })}
      >
        <div className="pair">
          <TextField label="Name" name="name" initial={agent.name} problem={error} autoFocus />
          <TextField label="Role" name="role" initial={agent.role} problem={error} />
          <SelectField
            label="Access"
            name="access"
            options={accesses}
            initial={agent.access}
            problem={error}
          />
          <SelectField label="Tier" name="tier" options={tiers} initial={agent.tier} problem={error} />
        </div>
        <Figures agent={agent} problem={error} />
      </Form>
    </Dialog>
  )
}

export function RotateDialog({
  agentId,
  onClose,
  onRotated,
}: {
  agentId: string
  onClose: () => void
  onRotated: (secret: Secret | null) => void
}) {
  const rotate = useChange(
    ({ volume, force }: Values) =>
      take(
        api.POST('/api/v1/agents/{agent_id}/rotate', {
          params: { path: { agent_id: agentId } },
          body: {
            ...(volume === undefined ? {} : { volume }),
            ...(force === undefined ? {} : { force: true }),
          },
        }),
      ),
    ['agents'],
  )
  return (
    <Dialog title={`Rotate the key of ${agentId}`} onClose={onClose}>
      <Form
        submit="Rotate"
        danger
        busy={rotate.isPending}
        problem={rotate.error}
        onCancel={onClose}
        onSubmit={(values) => rotate.mutate(values, { onSuccess: (rotated) => onRotated(secretOf(rotated)) })}
      >
        <p>The present key, and the gateway keys that it opened, stop working at once.</p>
        <TextField
          label="Volume for the private key"
          name="volume"
          hint="Empty: the key is shown here once."
          problem={rotate.error}
        />
        <CheckField label="Replace a key that the volume holds already" name="force" />
      </Form>
    </Dialog>
  )
}

export function IssueKeyDialog({
  agentId,
  onClose,
  onIssued,
}: {
  agentId?: string
  onClose: () => void
  onIssued: (secret: Secret) => void
}) {
  const issue = useChange(
    ({ agent_id = '', label }: Values) =>
      take(
        api.POST('/api/v1/agent-keys', {
          body: { agent_id: agentId ?? agent_id, ...(label === undefined ? {} : { label }) },
        }),
      ),
    ['agent-keys'],
  )
  return (
    <Dialog title={agentId ? `Issue a key for ${agentId}` : 'Issue an agent key'} onClose={onClose}>
      <Form
        submit="Issue"
        busy={issue.isPending}
        problem={issue.error}
        onCancel={onClose}
        onSubmit={(values) =>
          issue.mutate(values, {
            onSuccess: ({ agent_id, id, key }) =>
              onIssued({
                title: `An agent key of ${agent_id}`,
                text: 'The agent trades it for its tokens.',
                value: key,
                file: `${id}.txt`,
              }),
          })
        }
      >
        {agentId === undefined && (
          <TextField label="Agent id" name="agent_id" required autoFocus problem={issue.error} />
        )}
        <TextField
          label="Label"
          name="label"
          hint="Where it is used, for example: on the build machine."
          problem={issue.error}
          autoFocus={agentId !== undefined}
        />
      </Form>
    </Dialog>
  )
}
