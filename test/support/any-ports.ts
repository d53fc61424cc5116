/** Every interface of a platform takes any free port. */
export const anyPorts = {
  VECTOR_GATEWAY_PORT: '0',
  MAIN_API_PORT: '0',
  HUB_PORT: '0',
  RUN_GATEWAY_PORT: '0',
  WEBHOOK_GATEWAY: '127.0.0.1:0',
  OPS_PORT: '0',
}
