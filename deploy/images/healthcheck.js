// Exits with 0 when the process of this container answers a probe, /readyz unless another path is named. One image runs every
// service, so it asks each port that a service may have: in a container there is one process, ready as a whole.

const env = process.env
const path = process.argv[2] ?? '/readyz'
const ports = [
  env.OPS_PORT || 9464,
  env.VECTOR_GATEWAY_PORT || 8080,
  env.MAIN_API_PORT || 8081,
  env.RUN_GATEWAY_PORT || 8082,
  env.HUB_PORT || 8083,
  /:(\d+)\/?$/.exec(env.WEBHOOK_GATEWAY ?? '')?.[1] ?? 9090,
]
const answers = ports.map(async (port) => {
  const { ok, status } = await fetch(`http://127.0.0.1:${port}${path}`, {
    signal: AbortSignal.timeout(4_000),
  })
  if (!ok) throw new Error(`port ${port} answers ${status}`)
})
const answered = await Promise.any(answers).then(
  () => true,
  (error) => {
    console.error(error.errors.map(({ message, cause }) => cause?.message ?? message).join('; '))
    return false
  },
)
process.exit(answered ? 0 : 1)
