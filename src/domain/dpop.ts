/** DPoP proofs (RFC 9449) that a backend received with a session key and sends on in a decision request. */
import { z } from 'zod';
import { optional, Text } from './common-fields.ts';

const proofErrorCodes = ['invalid_dpop_proof', 'use_dpop_nonce'] as const;
export type ProofErrorCode = (typeof proofErrorCodes)[number];

const proofFields = {
  jwt: Text.describe('The `DPoP` header of the request that you received.'),
  method: Text.describe('The method of that request.'),
  url: Text.describe('The URL of that request, as the client sent it. The query is ignored.'),
  request: optional(z.string().max(200)).describe(
    'An id of that request, which you choose, for example a UUID. With the same id, you can send the proof again, to ask about another permission or resource. Otherwise a proof is accepted once.',
  ),
};

export const PresentedProof = z.strictObject(proofFields).meta({ id: 'PresentedProof' });
export type PresentedProof = z.infer<typeof PresentedProof>;

/** Like `PresentedProof`, but ignores unknown fields. */
export const AuthZenProof = z.object(proofFields).meta({ id: 'AuthZenProof' });

export const DpopResponse = z
  .object({
    nonce: Text.describe('To send in the header `DPoP-Nonce`.'),
    error: z
      .enum(proofErrorCodes)
      .exactOptional()
      .describe(
        'Why the proof was not accepted. Respond with 401 and `WWW-Authenticate: DPoP error="…"` with this value.',
      ),
  })
  .meta({ id: 'DpopResponse' });
export type DpopResponse = z.infer<typeof DpopResponse>;

export const dpopField = DpopResponse.exactOptional().describe(
  'For the credential of a bound session: the headers of your response to the client. Absent if it needs none.',
);
