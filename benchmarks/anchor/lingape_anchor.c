/* The speed anchor: LinGapE on best-arm identification, K = 50, d = 20, float64, with selective
   elimination at stopping and at sampling. Runs follow one another on one core.
   `python -m benchmarks` builds and runs it beside each timed call. By hand:
     gcc -O3 -march=native -ffast-math lingape_anchor.c -o lingape_anchor -lm
     ./lingape_anchor 200 instance.txt      runs, instance (theta, then the arms, as text)
   It prints the mean of tau, the errors and the microseconds of processor time per step. */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <stdint.h>
#define K 50
#define D 20
static double Phi[K][D], th[D], mu[K];
static uint64_t s[2]={1,2};
static inline uint64_t nx(){uint64_t a=s[0],b=s[1];s[0]=b;a^=a<<23;s[1]=a^b^(a>>17)^(b>>26);return s[1]+b;}
static inline double un(){return (nx()>>11)*0x1p-53;}
static double nrm(){static int h=0;static double v;if(h){h=0;return v;}double u=un(),w=un();double r=sqrt(-2*log(u+1e-300));h=1;v=r*sin(6.283185307179586*w);return r*cos(6.283185307179586*w);}
int main(int c,char**v){
 FILE*f=fopen(v[2],"r");for(int i=0;i<D;i++)fscanf(f,"%lf",th+i);for(int k=0;k<K;k++)for(int i=0;i<D;i++)fscanf(f,"%lf",&Phi[k][i]);
 for(int k=0;k<K;k++){mu[k]=0;for(int i=0;i<D;i++)mu[k]+=Phi[k][i]*th[i];}
 int runs=atoi(v[1]);long steps=0,tot=0;clock_t t0=clock();int err=0;
 for(int r=0;r<runs;r++){
  static double G[K][K]; double b[K]={0}; 
  // init with V=I: G=Phi Phi^T
  for(int i=0;i<K;i++)for(int j=0;j<K;j++){double a=0;for(int q=0;q<D;q++)a+=Phi[i][q]*Phi[j][q];G[i][j]=a;}
  unsigned char act[K];memset(act,1,K);int na=K;long t=0;
  #define PLAY(k) {double Y=mu[k]+nrm();double q=1/(1+G[k][k]);double e=(Y-b[k])*q;double u[K];for(int j=0;j<K;j++){u[j]=G[k][j];}for(int j=0;j<K;j++)b[j]+=u[j]*e;for(int i=0;i<K;i++){double x=u[i]*q;for(int j=0;j<K;j++)G[i][j]-=x*u[j];}}
  for(int k=0;k<K;k++)PLAY(k); t=K;
  while(1){
   int is=0;for(int k=1;k<K;k++)if(b[k]>b[is])is=k;
   double be=log((t+1)/.01);
   double nr[K];for(int j=0;j<K;j++)nr[j]=G[is][is]+G[j][j]-2*G[is][j];
   for(int j=0;j<K;j++)if(act[j]&&j!=is){double g=b[is]-b[j];if(g>0&&.5*g*g>be*nr[j]){act[j]=0;na--;}}
   if(na<=1)break; t++;
   double ct=sqrt(2*(log(100)+2*log(t+1)));int jt=-1;double m=-1e300;
   for(int j=0;j<K;j++)if(act[j]&&j!=is){double sc=b[j]-b[is]+ct*sqrt(nr[j]);if(sc>=m){m=sc;jt=j;}}
   int k=0;double bs=-1;for(int j=0;j<K;j++){double y=G[is][j]-G[jt][j];double q=y*y/(1+G[j][j]);if(q>bs){bs=q;k=j;}}
   PLAY(k);
  }
  steps+=t; int a=-1;for(int j=0;j<K;j++)if(act[j])a=j;if(a!=0)err++;
 }
 double dt=(double)(clock()-t0)/CLOCKS_PER_SEC;printf("runs %d mean tau %.1f err %d  us/step %.4f\n",runs,(double)steps/runs,err,dt/steps*1e6);
}
